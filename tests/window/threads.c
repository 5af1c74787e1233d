// Threads that wait for each other in turns, compute between, and have memory of their
// own; one of them writes where it may not. Others were made and have ended before.
// expect: signal 11
// build: -pthread
#include "window.h"

#define THREADS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t common;
static long turn;
static __thread uint64_t own = 7;

static void *brief(void *argument)
{
	own += (uintptr_t)argument;
	return (void *)(uintptr_t)own;
}

static void *work(void *argument)
{
	long me = (long)argument;
	char who[16];
	snprintf(who, sizeof who, "%ld ", me);
	int descriptor = chance();
	for (long number = 0;; number++) {
		own = stir(own, descriptor);
		volatile uint64_t spun = own;
		for (int round = 0; round < 100000; round++)
			spun = spun * 3 + 1;
		own ^= spun;
		CHECK(pthread_mutex_lock(&lock) == 0);
		while (turn % THREADS != me)
			CHECK(pthread_cond_wait(&changed, &lock) == 0);
		common = common * 17 + own;
		turn++;
		step(who, number, common);
		CHECK(pthread_cond_broadcast(&changed) == 0);
		if (told && me == 2) {
			printf("end %016lx\n", (unsigned long)common);
			*(volatile int *)(common & 8) = 1;
		}
		CHECK(pthread_mutex_unlock(&lock) == 0);
		if (me == 1 && number % 30 == 0) {
			pthread_t thread;
			void *result;
			CHECK(pthread_create(&thread, NULL, brief, (void *)number) == 0);
			CHECK(pthread_join(thread, &result) == 0 && (uintptr_t)result == (uintptr_t)number + 7);
		}
	}
	return NULL;
}

int main(void)
{
	begin();
	pthread_t threads[THREADS];
	for (long index = 0; index < THREADS; index++)
		CHECK(pthread_create(&threads[index], NULL, work, (void *)index) == 0);
	pthread_join(threads[0], NULL);
}
