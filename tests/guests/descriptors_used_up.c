// A timer's signals come to a program that computes, and has all descriptors that it may have.
// Methods that look at memory with each call need a descriptor for it.
// not-by: write-protection sums
#include "ticks.h"
#include <sys/resource.h>

static int use_up(void)
{
	int last = -1, fd;
	while ((fd = dup(0)) >= 0)
		last = fd;
	CHECK(errno == EMFILE);
	return last;
}

int main(void)
{
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	// The second time it is the most that may be asked for.
	for (int round = 0; round < 2; round++) {
		limit.rlim_cur = 100 + 100 * round;
		if (round == 1)
			limit.rlim_max = limit.rlim_cur;
		CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		int last = use_up();
		say("the last is %d", last);
		start_ticks();
		compute_for_ticks(3);
		CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
		say("at most %d of %d", (int)limit.rlim_cur, round == 1 ? (int)limit.rlim_max : 0);
		CHECK(dup(0) == -1 && errno == EMFILE);
	}
	return 0;
}
