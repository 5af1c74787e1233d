// A thread that spins on a flag, bare, with the pause instruction, and yielding now and then.
// covers: sched_yield
#include "threads.h"

static atomic_int flag;
static volatile int plain_flag;
static uint64_t result;

static long spin_bare(void)
{
	while (!atomic_load_explicit(&flag, memory_order_acquire))
		;
	return 0;
}

static long spin_with_pause(void)
{
	long rounds = 0;
	while (!atomic_load_explicit(&flag, memory_order_acquire)) {
		__builtin_ia32_pause();
		rounds++;
	}
	return rounds;
}

static long spin_on_volatile(void)
{
	long rounds = 0;
	while (!plain_flag)
		rounds += 3;
	// On x86-64 loads are not reordered with loads: the compiler alone must be kept from it.
	atomic_signal_fence(memory_order_acquire);
	return rounds;
}

// Twice as many rounds each time, then the processor is given away.
static long spin_with_backoff(void)
{
	long rounds = 0, limit = 1;
	while (!atomic_load_explicit(&flag, memory_order_acquire)) {
		for (long i = 0; i < limit; i++)
			__builtin_ia32_pause();
		rounds += limit;
		if (limit < 1024)
			limit *= 2;
		else
			sched_yield();
	}
	return rounds;
}

static long (*const ways[])(void) = {spin_bare, spin_with_pause, spin_on_volatile, spin_with_backoff};

struct spin {
	unsigned way;
	long rounds;
	uint64_t seen;
};

static void *spin(void *argument)
{
	struct spin *own = argument;
	own->rounds = ways[own->way]();
	own->seen = result;
	return NULL;
}

int main(void)
{
	for (int round = 0; round < 6; round++)
		for (unsigned way = 0; way < COUNT(ways); way++) {
			struct spin own = {.way = way};
			atomic_store(&flag, 0);
			plain_flag = 0;
			pthread_t thread = start(spin, &own);
			result = compute(way, 100000 * (round % 3));
			atomic_signal_fence(memory_order_release);
			plain_flag = 1;
			atomic_store_explicit(&flag, 1, memory_order_release);
			join(thread);
			nondet("way %u: %ld rounds", way, own.rounds);
			say("way %u: %llx", way, (unsigned long long)own.seen);
		}
	return 0;
}
