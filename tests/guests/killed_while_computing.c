// Processes that share nothing are ended while they compute, by signals with no handler. Replay
// ends them there, too.
// covers: kill wait4
#include "guest.h"

static volatile unsigned long count;

int main(void)
{
	static const int signals[] = { SIGTERM, SIGKILL, SIGALRM, SIGUSR1, SIGQUIT, SIGXCPU, SIGSEGV };
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		int ends[2];
		CHECK(pipe(ends) == 0);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			CHECK(write(ends[1], "x", 1) == 1);
			for (;;)
				count += count & 1 ? 3 : 1;
		}
		char byte;
		CHECK(read(ends[0], &byte, 1) == 1);
		usleep(20000);
		CHECK(kill(pid, signals[i]) == 0);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		say("%d of %d", WTERMSIG(status), signals[i]);
		close(ends[0]);
		close(ends[1]);
	}
	return 0;
}
