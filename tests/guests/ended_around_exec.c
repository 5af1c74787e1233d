// A process is ended while it executes another program: the signal is not lost with the image that
// it came to.
// covers: execve kill wait4
#include "guest.h"

#define TIMES 40

static void execute(void)
{
	execl("/proc/self/exe", "ended_around_exec", "sleep", NULL);
}

int main(int argc, char **argv)
{
	const int signals[] = { SIGTERM, SIGQUIT, SIGKILL, SIGRTMIN + 1 };
	(void)argv;
	if (argc == 2)
		return usleep(400000);
	int lost = 0;
	for (int i = 0; i < TIMES; i++) {
		pid_t pid = start_child(execute);
		usleep((useconds_t)(i * 100));
		int signal = signals[i % 4];
		CHECK(kill(pid, signal) == 0);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		lost += !WIFSIGNALED(status) || WTERMSIG(status) != signal;
	}
	say("lost %d of %d", lost, TIMES);
	return 0;
}
