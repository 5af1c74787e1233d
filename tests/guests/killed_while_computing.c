// Processes that share nothing are ended while they compute, by signals with no handler. Replay
// ends them there, too.
// covers: kill wait4
#include "guest.h"

static volatile unsigned long count;

static void compute(void)
{
	for (;;)
		count += count & 1 ? 3 : 1;
}

int main(void)
{
	static const int signals[] = { SIGTERM, SIGKILL, SIGALRM, SIGUSR1, SIGQUIT, SIGXCPU, SIGSEGV };
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		// Who runs in the background of a shell script may have some ignored.
		CHECK(signals[i] == SIGKILL || signal(signals[i], SIG_DFL) != SIG_ERR);
		pid_t pid = start_child(compute);
		usleep(20000);
		CHECK(kill(pid, signals[i]) == 0);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		say("%d of %d", WTERMSIG(status), signals[i]);
	}
	return 0;
}
