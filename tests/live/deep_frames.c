// The function that took the checkpoint has returned, and others have used its stack;
// going back brings its frame again, and those above it, from deeper and from less deep.
// prints: 0: 100 deep
// prints: 1: 100 deep
// prints: 2: 100 deep
// prints: unwound 100
#include "live.h"
#include <setjmp.h>

static int id, unwound;
static jmp_buf out;

static __attribute__((noinline)) int take(int depth)
{
	volatile int mine = depth;
	int result = depth == 0 ? (id = checkpoint(), rv_rollbacks(id)) : take(depth - 1);
	CHECK(mine == depth);
	unwound++;
	return result;
}

static __attribute__((noinline)) void dive(int depth)
{
	volatile char room[500];
	memset((char *)room, depth, sizeof room);
	if (depth == 0 && hidden(1))
		back(id);
	if (depth > 0)
		dive(depth - 1);
	CHECK(room[3] == 0);
}

int main(void)
{
	need_session();
	int count = take(99);
	say("%d: 100 deep", count);
	if (count == 0)
		dive(1000);
	if (count == 1) {
		if (setjmp(out) == 0)
			longjmp(out, 1);
		back(id);
	}
	say("unwound %d", unwound);
	return 0;
}
