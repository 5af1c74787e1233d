// Processes that were made by vfork execute a program that dies of a fault at once.
// covers: vfork execve
#include "guest.h"

int main(int argc, char **argv)
{
	if (argc > 1) {
		int *volatile nowhere = NULL;
		return *nowhere;
	}
	char *again[] = {argv[0], "die", NULL};
	for (int i = 0; i < 60; i++) {
		pid_t child = vfork();
		if (child == 0) {
			execv("/proc/self/exe", again);
			_exit(126);
		}
		CHECK(child > 0);
		reap("it", child);
	}
	return 0;
}
