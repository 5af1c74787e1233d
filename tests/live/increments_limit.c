// Where there is no memory for what was written, a checkpoint is refused or made in
// another way, and what was kept before is there still.
// prints: went back
// prints: went back again
#include "live.h"
#include <sys/resource.h>

#define PAGES 6000

static char *memory;

static void set_limit(rlim_t limit)
{
	struct rlimit now;
	CHECK(getrlimit(RLIMIT_AS, &now) == 0);
	now.rlim_cur = limit < now.rlim_max ? limit : now.rlim_max;
	CHECK(setrlimit(RLIMIT_AS, &now) == 0);
}

int main(void)
{
	need_session();
	memory = map(PAGES * PAGE);
	memset(memory, 'a', PAGES * PAGE);
	int first = checkpoint();
	if (first_time(first)) {
		memset(memory, 'b', 100 * PAGE);
		int second = checkpoint();
		if (first_time(second)) {
			// Nothing more can be mapped from here on.
			set_limit(1 << 20);
			for (int round = 0; round < 5; round++) {
				memset(memory + round * 250 * PAGE, 'c', 250 * PAGE);
				int id = rv_checkpoint();
				CHECK(id >= 0 || errno == ENOMEM || errno == EAGAIN);
				CHECK(is_full(memory + round * 250 * PAGE, 250 * PAGE, 'c'));
			}
			set_limit(RLIM_INFINITY);
			int id = checkpoint();
			if (first_time(id)) {
				memset(memory, 'd', PAGES * PAGE);
				back(id);
			}
			CHECK(is_full(memory, 1250 * PAGE, 'c'));
			CHECK(is_full(memory + 1250 * PAGE, (PAGES - 1250) * PAGE, 'a'));
			back(second);
		}
		CHECK(is_full(memory, 100 * PAGE, 'b'));
		CHECK(is_full(memory + 100 * PAGE, (PAGES - 100) * PAGE, 'a'));
		say("went back");
		fflush(stdout);
		back(first);
	}
	CHECK(is_full(memory, PAGES * PAGE, 'a'));
	forget(first);
	say("went back again");
	return 0;
}
