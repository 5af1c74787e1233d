// Threads that wait for each other by reading the time again and again: the counter of the
// processor, and the clock.
// covers: clock_gettime
#include "guest.h"
#include <pthread.h>
#include <time.h>
#include <x86intrin.h>

enum { ROUNDS = 60 };

static volatile int ball;
static unsigned long reads[2];

static int is_over(unsigned long long start)
{
	return __rdtsc() - start > 1ull << 36;
}

static void *play(void *own)
{
	int me = (int)(long)own;
	unsigned long long start = __rdtsc();
	for (int i = 0; i < ROUNDS; i++) {
		while (ball != me && !is_over(start)) {
			struct timespec now;
			if (i % 3 == 0)
				clock_gettime(CLOCK_MONOTONIC, &now);
			reads[me]++;
		}
		ball = !me;
	}
	return NULL;
}

int main(void)
{
	pthread_t other;
	CHECK(pthread_create(&other, NULL, play, (void *)1) == 0);
	play((void *)0);
	pthread_join(other, NULL);
	nondet("%lu and %lu reads", reads[0], reads[1]);
	say("ball %d", ball);
	return 0;
}
