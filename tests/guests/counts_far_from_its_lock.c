// Threads that do nothing but lock, count and unlock: only the count tells one round from the
// next, and no register points near it.
// covers: futex clone
#include "guest.h"
#include <pthread.h>

static struct {
	pthread_mutex_t lock;
	long between[20];
	volatile long count;
} shared __attribute__((aligned(4096))) = {.lock = PTHREAD_MUTEX_INITIALIZER};
static volatile int stop;

static void *counts(void *unused)
{
	while (!stop) {
		pthread_mutex_lock(&shared.lock);
		shared.count++;
		pthread_mutex_unlock(&shared.lock);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, counts, NULL) == 0);
	for (int i = 0; i < 40; i++)
		usleep(10000);
	stop = 1;
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	say("counted: %d", shared.count > 0);
	return 0;
}
