// A process is ended while it executes another program: the signal is not lost with the image that
// it came to.
// covers: execve kill wait4
#include "guest.h"

#define TIMES 40

int main(int argc, char **argv)
{
	const int signals[] = { SIGTERM, SIGQUIT, SIGKILL, SIGRTMIN + 1 };
	if (argc == 2)
		return usleep(400000);
	int lost = 0;
	for (int i = 0; i < TIMES; i++) {
		int ends[2];
		CHECK(pipe(ends) == 0);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			CHECK(write(ends[1], "x", 1) == 1);
			execl("/proc/self/exe", argv[0], "sleep", NULL);
			_exit(1);
		}
		char byte;
		CHECK(read(ends[0], &byte, 1) == 1);
		usleep((useconds_t)(i * 100));
		int signal = signals[i % 4];
		CHECK(kill(pid, signal) == 0);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		lost += !WIFSIGNALED(status) || WTERMSIG(status) != signal;
		close(ends[0]);
		close(ends[1]);
	}
	say("lost %d of %d", lost, TIMES);
	return 0;
}
