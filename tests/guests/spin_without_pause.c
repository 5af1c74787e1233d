// Threads that wait for each other in loops that do not say so: on a flag, for a ticket, at a barrier, for a
// lock that is tried by exchange, and as an I/O thread of redis does, counting down.
// covers: clone3
#include "threads.h"

#define THREADS 4
#define ROUNDS 60

static atomic_int flag, count, generation, busy, held;
static atomic_uint next_ticket, now_serving;
static atomic_long pending[THREADS];
static long counted;
static uint64_t sums[THREADS];

static void wait_at_barrier(void)
{
	int now = atomic_load(&generation);
	if (atomic_fetch_add(&count, 1) == THREADS - 1) {
		atomic_store(&count, 0);
		atomic_store(&generation, now + 1);
	} else {
		while (atomic_load(&generation) == now)
			;
	}
}

static void lock_by_ticket(void)
{
	unsigned ticket = atomic_fetch_add(&next_ticket, 1);
	while (atomic_load(&now_serving) != ticket)
		;
}

static void lock_by_exchange(void)
{
	while (atomic_exchange(&busy, 1))
		;
}

static void lock_by_comparison(void)
{
	int free = 0;
	while (!atomic_compare_exchange_weak(&held, &free, 1))
		free = 0;
}

static void *run(void *argument)
{
	long own = (long)argument;
	while (!atomic_load(&flag))
		;
	for (int i = 0; i < ROUNDS; i++) {
		sums[own] += compute((uint64_t)(own + i), 300);
		wait_at_barrier();
		lock_by_ticket();
		counted += own;
		atomic_fetch_add(&now_serving, 1);
		lock_by_exchange();
		counted ^= i;
		atomic_store(&busy, 0);
		lock_by_comparison();
		counted += 7;
		atomic_store(&held, 0);
	}
	return NULL;
}

// Waits for work for a while, then looks whether it is over.
static void *serve(void *argument)
{
	long own = (long)argument;
	for (;;) {
		for (int j = 0; j < 1000000; j++)
			if (atomic_load(&pending[own]) != 0)
				break;
		long work = atomic_load(&pending[own]);
		if (work < 0)
			return NULL;
		if (work == 0)
			continue;
		sums[own] += compute((uint64_t)work, 200);
		atomic_store(&pending[own], 0);
	}
}

static void give_work(void)
{
	for (long round = 1; round <= ROUNDS; round++) {
		for (int i = 1; i < THREADS; i++)
			atomic_store(&pending[i], round);
		for (;;) {
			long left = 0;
			for (int i = 1; i < THREADS; i++)
				left += atomic_load(&pending[i]);
			if (left == 0)
				break;
		}
	}
	for (int i = 1; i < THREADS; i++)
		atomic_store(&pending[i], -1);
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(run, (void *)i);
	atomic_store(&flag, 1);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	nondet("counted %ld", counted);
	for (long i = 1; i < THREADS; i++)
		threads[i] = start(serve, (void *)i);
	give_work();
	for (int i = 1; i < THREADS; i++) {
		join(threads[i]);
		say("sum %llx", (unsigned long long)sums[i]);
	}
	return 0;
}
