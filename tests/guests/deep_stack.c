// Recursion through 6 MB of stack, with system calls at the bottom.
// covers: getppid
#include "guest.h"

__attribute__((noinline)) static unsigned long descend(int depth, unsigned long seed)
{
	volatile unsigned char block[1000];
	for (size_t i = 0; i < sizeof block; i += 100)
		block[i] = seed + i;
	unsigned long below;
	if (depth == 0) {
		CHECK(getppid() > 0);
		pid_t child = fork();
		if (child == 0)
			_exit(44);
		reap("child of the deep", child);
		below = 1;
	} else {
		below = descend(depth - 1, seed * 31 + 7);
	}
	for (size_t i = 0; i < sizeof block; i += 100)
		below = below * 17 + block[i];
	return below;
}

int main(void)
{
	say("result %lu", descend(5800, 1));
	return 0;
}
