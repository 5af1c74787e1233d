/* What is recorded once, damaged in many ways and looked at by every command. The argument says
 * what it does: files, computes, processes or threads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int alarms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;

static void alarmed(int signal)
{
	(void)signal;
	alarms++;
}

__attribute__((noinline)) long work(long round, long value)
{
	long sum = round * 31 + value; /* LINE */
	return sum ^ (sum >> 7);
}

static void files(void)
{
	long sum = 0;
	for (int round = 0; round < 60; round++) {
		unsigned char bytes[64];
		int file = open("/proc/self/comm", O_RDONLY);
		if (read(file, bytes, sizeof bytes) < 0 || getrandom(bytes, sizeof bytes, 0) < 0)
			exit(3);
		close(file);
		sum = work(round, sum + bytes[round]);
		printf("round %d: %ld\n", round, sum & 0xffff);
		fflush(stdout);
	}
}

static void computes(void)
{
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } };
	signal(SIGALRM, alarmed);
	setitimer(ITIMER_REAL, &every, NULL);
	unsigned long sum = 0;
	for (int seen = 0; seen < 12;) {
		sum = sum * 31 + 7;
		if (alarms != seen) {
			seen = alarms;
			sum = work(seen, sum);
		}
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	printf("%d alarms, %lu\n", alarms, sum & 0xffff);
}

static void processes(void)
{
	long *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pipes[2];
	if (pipe(pipes) != 0)
		exit(3);
	for (int child = 0; child < 3; child++) {
		if (fork() == 0) {
			for (int round = 0; round < 10; round++) {
				__atomic_fetch_add(shared, work(round, child), __ATOMIC_RELAXED);
				printf("child %d, round %d\n", child, round);
				fflush(stdout);
			}
			if (write(pipes[1], "x", 1) != 1)
				_exit(3);
			_exit(child);
		}
	}
	for (int child = 0; child < 3; child++) {
		char letter;
		if (read(pipes[0], &letter, 1) != 1)
			exit(3);
	}
	while (wait(NULL) > 0)
		;
	printf("together %ld\n", work(1, *shared) & 0xffff);
}

static void *thread(void *argument)
{
	for (long round = 0; round < 20; round++) {
		pthread_mutex_lock(&lock);
		total += work(round, (long)argument);
		pthread_mutex_unlock(&lock);
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (round % 5 == 0)
			usleep(100);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t made[3];
	for (long number = 0; number < 3; number++)
		pthread_create(&made[number], NULL, thread, (void *)number);
	for (int number = 0; number < 3; number++)
		pthread_join(made[number], NULL);
	printf("total %ld\n", total & 0xffff);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "files";
	if (strcmp(what, "files") == 0)
		files();
	else if (strcmp(what, "computes") == 0)
		computes();
	else if (strcmp(what, "processes") == 0)
		processes();
	else
		threads();
	return 7;
}
