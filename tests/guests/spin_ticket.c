// Three threads that take a ticket lock in turn, and spin for it.
// covers: clone3
#include "threads.h"

#define THREADS 3
#define ROUNDS 12

static atomic_uint next_ticket, now_serving;
static long counter;
static char order[THREADS * ROUNDS + 1];

static void lock(void)
{
	unsigned ticket = atomic_fetch_add(&next_ticket, 1);
	while (atomic_load(&now_serving) != ticket)
		__builtin_ia32_pause();
}

static void *count(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		lock();
		long before = counter;
		order[before] = (char)('a' + (long)argument);
		CHECK(compute((uint64_t)before, 200) != 1);
		counter = before + 1;
		atomic_fetch_add(&now_serving, 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(count, (void *)i);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	nondet("order %s", order);
	say("counted %ld, tickets %u", counter, atomic_load(&next_ticket));
	return 0;
}
