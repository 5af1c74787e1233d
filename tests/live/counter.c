// A counter in a register, on the stack, in static memory and on the heap goes back
// five times to one checkpoint.
// prints: after 0 rollbacks: 10 10 10
// prints: after 1 rollbacks: 10 10 10
// prints: after 2 rollbacks: 10 10 10
// prints: after 3 rollbacks: 10 10 10
// prints: after 4 rollbacks: 10 10 10
// prints: after 5 rollbacks: 10 10 10
#include "live.h"

static int in_data;

int main(void)
{
	int on_stack = 0, *on_heap = calloc(1, sizeof *on_heap);
	CHECK(on_heap);
	int id = checkpoint();
	int count = rv_rollbacks(id);
	CHECK(in_data == 0 && on_stack == 0 && *on_heap == 0);
	for (int i = 0; i < 10; i++) {
		in_data++;
		on_stack++;
		(*on_heap)++;
	}
	say("after %d rollbacks: %d %d %d", count, in_data, on_stack, *on_heap);
	if (count < 5)
		back(id);
	forget(id);
	return 0;
}
