// Processes of different memory that have the same descriptors, and compute until a timer's signals
// came, with a stack that may grow without a limit.
#include "ticks.h"
#include <linux/sched.h>
#include <sys/resource.h>

enum { CHILDREN = 5, OF_BOTH = 50, MUCH_BYTES = 4 << 20 };

// Of much memory, what was written between two signals is found by its protection.
static char much[MUCH_BYTES];

static void compute(void)
{
	int end = ticks + 3;
	for (long work = 0; ticks < end; work++)
		much[work * 4096 % MUCH_BYTES] ^= 1;
}

int main(void)
{
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
	memset(much, 1, sizeof much);
	start_ticks();
	compute();
	for (int round = 1; round <= CHILDREN; round++) {
		pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0);
		if (child == 0) {
			start_ticks();
			compute();
			int fd = open("shared", O_RDWR | O_CREAT, 0600);
			_exit(fd < 0 || dup2(fd, OF_BOTH) != OF_BOTH || close(fd) != 0);
		}
		CHECK(child > 0);
		compute();
		CHECK(reap("child", child) == 0);
		compute();
		CHECK(close(OF_BOTH) == 0);
		say("round %d", round);
	}
	return 0;
}
