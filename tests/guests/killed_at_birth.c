// Children that are killed at any moment of their execve, by a parent that does not wait.
// covers: execve kill wait4
#include "guest.h"

#define CHILDREN 200

int main(int argc, char **argv)
{
	if (argc > 1)
		pause();
	for (int child = 0; child < CHILDREN; child++) {
		pid_t pid = fork();
		if (pid == 0) {
			execl(argv[0], argv[0], "child", NULL);
			_exit(99);
		}
		CHECK(pid > 0);
		struct timespec time = {.tv_nsec = child % 50 * 100000L};
		CHECK(nanosleep(&time, NULL) == 0);
		CHECK(kill(pid, SIGKILL) == 0);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	say("%d children were killed", CHILDREN);
	return 0;
}
