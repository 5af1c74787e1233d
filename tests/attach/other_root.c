// A process whose root is a directory without /proc: what it has mapped, and what of that is
// its own, is found all the same.
// prints-in-replay
#include "attach.h"

static long values[4096];

int main(void)
{
	permit();
	if (geteuid() == 0) {
		CHECK(chroot(".") == 0 && chdir("/") == 0);
		CHECK(access("/proc", F_OK) != 0);
	}
	for (long step = 1;; step++) {
		CHECK(values[(step - 1) % 4096] == step - 1);
		values[step % 4096] = step;
		printf("step %ld\n", step);
		nap(10);
	}
}
