// sigsuspend and SIGCHLD: the loop of every shell.
// covers: rt_sigsuspend
#include "guest.h"

static volatile int children;

static void on_child(int number)
{
	(void)number;
	int status;
	while (waitpid(-1, &status, WNOHANG) > 0)
		children += WEXITSTATUS(status);
}

int main(void)
{
	sigset_t set, old;
	struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
	CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
	int expected = 0;
	for (int i = 1; i <= 10; i++) {
		expected += i;
		if (fork() == 0)
			_exit(i);
	}
	while (children < expected) {
		CHECK_ERR(sigsuspend(&old), EINTR);
		nondet("so far %d", children);
	}
	say("children's codes add up to %d", children);
	sigset_t now;
	CHECK(sigprocmask(0, NULL, &now) == 0 && sigismember(&now, SIGCHLD));
	return 0;
}
