// Processes that end while another of their threads writes: what came out is in the recording.
// covers: exit_group write clone
// build: -pthread
#include "guest.h"
#include <pthread.h>

enum { PROCESSES = 40 };

static void *write_lines(void *unused)
{
	static const char LINE[] = "~ one thread writes\n";
	for (int i = 0; i < 3; i++)
		CHECK(write(1, LINE, sizeof LINE - 1) == (ssize_t)(sizeof LINE - 1));
	return unused;
}

int main(void)
{
	for (int i = 0; i < PROCESSES; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			pthread_t thread;
			CHECK(pthread_create(&thread, NULL, write_lines, NULL) == 0);
			usleep((useconds_t)(i % 8) * 20);
			_exit(3);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	}
	say("all ended");
	return 0;
}
