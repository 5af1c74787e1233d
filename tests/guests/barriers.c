// Barriers and once: many rounds, in each of which one thread is the chosen one.
// covers: futex
#include "threads.h"

#define THREADS 4
#define ROUNDS 100

static pthread_barrier_t barrier;
static uint64_t cells[2][THREADS];
static atomic_int chosen;

// Each round reads what all wrote in the round before.
static void *step(void *argument)
{
	int me = (int)(long)argument;
	for (int round = 0; round < ROUNDS; round++) {
		const uint64_t *from = cells[round % 2];
		uint64_t sum = 0;
		for (int i = 0; i < THREADS; i++)
			sum = sum * 31 + from[(me + i) % THREADS];
		cells[(round + 1) % 2][me] = compute(sum, 50);
		int result = pthread_barrier_wait(&barrier);
		CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
		if (result != 0)
			atomic_fetch_add(&chosen, 1);
	}
	return NULL;
}

static atomic_int initialised, late;

static void initialise(void)
{
	CHECK(compute(1, 100000) != 1);
	atomic_fetch_add(&initialised, 1);
}

static void *use_once(void *once)
{
	CHECK(pthread_once(once, initialise) == 0);
	CHECK(atomic_load(&initialised) > 0);
	atomic_fetch_add(&late, 1);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(step, (void *)i);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	say("cells %llx, chosen %d times", (unsigned long long)hash_bytes(cells, sizeof cells), atomic_load(&chosen));
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(use_once, &once);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	say("initialised %d times for %d", atomic_load(&initialised), atomic_load(&late));
	return 0;
}
