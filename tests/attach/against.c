// Six threads that compute against each other, so that they are paused, with a mutex and a
// nap between: whoever goes back finds some of them behind a pause, in whatever order they
// come. What they compute is in general registers and in vector registers.
// rounds: 4
// build: -pthread
#include "attach.h"

#define THREADS 6

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total, made[THREADS];
static volatile uint64_t racy;

static void *work(void *argument)
{
	long number = (long)argument, own = 0;
	uint64_t value = (uint64_t)number + 1, count = 0;
	double counted = 0;
	for (;;) {
		for (uint64_t left = 1000000 + (value & 0xffffff); left > 0; left--) {
			value = (value ^ (value >> 29)) * 6364136223846793005u + 1442695040888963407u;
			counted += (double)(value & 7);
			count += value & 7;
		}
		CHECK((uint64_t)counted == count);
		racy = racy * 31 + value;
		CHECK(pthread_mutex_lock(&lock) == 0);
		long sum = 0;
		for (int i = 0; i < THREADS; i++)
			sum += made[i];
		CHECK(sum == total && made[number] == own);
		total++;
		made[number] = ++own;
		CHECK(pthread_mutex_unlock(&lock) == 0);
		nap(1);
	}
	return NULL;
}

int main(void)
{
	permit();
	for (long number = 0; number < THREADS; number++)
		start(work, number);
	for (long step = 1;; step++) {
		nap(20);
		CHECK(pthread_mutex_lock(&lock) == 0);
		CHECK(total >= 0);
		CHECK(pthread_mutex_unlock(&lock) == 0);
		printf("step %ld\n", step);
	}
}
