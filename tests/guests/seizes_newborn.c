// Whoever is recorded cannot be traced, from its first moment on: each child is refused alike, though some have not
// begun when they are asked for.
// covers: ptrace fork kill wait4
#include "guest.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

enum { CHILDREN = 60 };

int main(void)
{
	int refused = 0, allowed = 0;
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		if (child == 0) {
			pause();
			_exit(0);
		}
		long result = ptrace(PTRACE_SEIZE, child, 0, 0);
		refused += result != 0 && errno == EPERM;
		allowed += result == 0;
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	printf("~ %d refused, %d allowed\n", refused, allowed);
	printf("alike %d\n", refused == CHILDREN || allowed == CHILDREN);
	return 0;
}
