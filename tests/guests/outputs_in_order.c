// Threads of several processes write lines to one pipe, as fast as they can: replay shows
// them in the order in which they were written.
// covers: write
#include "guest.h"
#include <pthread.h>

enum { PROCESSES = 3, THREADS = 3, LINES = 150 };

static int process;

static void *write_lines(void *thread)
{
	char line[64];
	for (int i = 0; i < LINES; i++) {
		int length = sprintf(line, "~ process %d thread %ld line %d\n", process, (long)thread, i);
		CHECK(write(1, line, length) == length);
	}
	return NULL;
}

int main(void)
{
	pid_t children[PROCESSES];
	pthread_t threads[THREADS];
	for (process = 0; process < PROCESSES; process++) {
		children[process] = fork();
		if (children[process])
			continue;
		for (long i = 0; i < THREADS; i++)
			CHECK(pthread_create(&threads[i], NULL, write_lines, (void *)i) == 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		_exit(process);
	}
	for (int i = 0; i < PROCESSES; i++)
		reap("writer", children[i]);
	return 0;
}
