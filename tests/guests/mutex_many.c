// Sixty-four threads that increment one counter under a mutex.
// covers: futex
#include "threads.h"

#define THREADS 64
#define ROUNDS 200

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spinlock;
static long counter, spun;

static void *count(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		long before = counter;
		CHECK(compute((uint64_t)before, 20) != 1);
		counter = before + 1;
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	// Few rounds: whoever is stopped with the spinlock held keeps all others spinning.
	for (int i = 0; i < 5; i++) {
		CHECK(pthread_spin_lock(&spinlock) == 0);
		spun++;
		CHECK(pthread_spin_unlock(&spinlock) == 0);
	}
	return argument;
}

int main(void)
{
	pthread_t threads[THREADS];
	CHECK(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE) == 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(count, NULL);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	say("counted %ld, spun %ld", counter, spun);
	return 0;
}
