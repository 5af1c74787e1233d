// A thread waits for another one in a loop of several functions, without a call to the kernel: it comes back to the
// same state with each round, and so may be preempted in any.
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int seen, set;
static unsigned table[16];

static int is_set(int round)
{
	pthread_mutex_lock(&lock);
	int is = set > round;
	pthread_mutex_unlock(&lock);
	return is;
}

static unsigned sum(void)
{
	unsigned sum = 0;
	for (int i = 0; i < 16; i++)
		sum = sum * 31 + table[i];
	return sum;
}

static void *waits(void *unused)
{
	for (int round = 0; round < 20; round++) {
		while (!is_set(round))
			table[15] = sum() * 0;
		table[round % 15]++;
		pthread_mutex_lock(&lock);
		seen++;
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, waits, NULL);
	for (int round = 0; round < 20; round++) {
		nanosleep(&(struct timespec){0, 10000000}, NULL);
		pthread_mutex_lock(&lock);
		set++;
		pthread_mutex_unlock(&lock);
	}
	pthread_join(thread, NULL);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%d of 20, sum %u, at %ld ms\n", seen, sum(), now.tv_nsec / 1000000);
	return 0;
}
