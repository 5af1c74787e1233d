// Children that nobody waits for, and children whose death is ignored.
// covers: wait4 kill rt_sigaction
#include "guest.h"

int main(void)
{
	int gone[2];
	char byte;
	CHECK(pipe(gone) == 0);
	pid_t child = fork();
	if (child == 0)
		_exit(3);
	siginfo_t info;
	CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
	CHECK(kill(child, 0) == 0); // A zombie is still there.
	CHECK(kill(child, SIGKILL) == 0);
	reap("zombie", child);
	CHECK_ERR(kill(child, 0), ESRCH);
	struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
	CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
	for (int i = 0; i < 5; i++) {
		child = fork();
		if (child == 0)
			_exit(i);
	}
	CHECK_ERR(wait(NULL), ECHILD);
	signal(SIGCHLD, SIG_IGN);
	child = fork();
	if (child == 0) {
		close(gone[0]);
		_exit(1);
	}
	close(gone[1]);
	CHECK(read(gone[0], &byte, 1) == 0);
	CHECK_ERR(waitpid(child, NULL, 0), ECHILD);
	signal(SIGCHLD, SIG_DFL);
	// This one is left over when its parent exits.
	child = fork();
	if (child == 0)
		_exit(0);
	CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
	say("a zombie is left");
	return 0;
}
