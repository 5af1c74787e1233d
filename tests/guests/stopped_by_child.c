// A child stops its parent, lets it go on, and ends; whoever waits for the parent is not asked.
// covers: kill wait4
#include "guest.h"

int main(void)
{
	pid_t parent = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (int i = 0; i < 3; i++) {
			usleep(30000);
			CHECK(kill(parent, SIGSTOP) == 0);
			usleep(30000);
			CHECK(kill(parent, SIGCONT) == 0);
		}
		_exit(7);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	say("the child ended with %d", WEXITSTATUS(status));
	return 0;
}
