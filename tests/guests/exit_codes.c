// All exit codes and the ways to exit.
// covers: exit exit_group
// expect: exit 77
#include "guest.h"

static void last_words(void)
{
	say("atexit ran");
}

int main(void)
{
	for (int code = 0; code < 256; code += 5) {
		pid_t child = fork();
		if (child == 0)
			syscall(code % 2 ? SYS_exit : SYS_exit_group, code);
		int status;
		CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == code);
	}
	pid_t child = fork();
	if (child == 0)
		_exit(0x12345);
	reap("cut to eight bits", child);
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGABRT, SIGKILL, SIGTERM, SIGALRM,
				      SIGPIPE, SIGUSR1, SIGSYS, SIGTRAP, SIGBUS, SIGFPE, SIGXCPU, SIGVTALRM};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		child = fork();
		if (child == 0) {
			signal(signals[i], SIG_DFL);
			kill(getpid(), signals[i]);
			_exit(0);
		}
		reap("by signal", child);
	}
	atexit(last_words);
	exit(77);
}
