// A thread waits in a loop with a `pause` that no jump covers, for longer than each round leads to a
// trap: at the pause that stops it, many millions of rounds later, replay is as fast as the loop.
// covers: clock_nanosleep
#include "threads.h"

static atomic_int word;
static long rounds;

static void *wait_for_word(void *argument)
{
	(void)argument;
	long count = 0;
	__asm__ volatile("1: inc %0\ncmp %2, (%1)\nje 2f\npause\njmp 1b\n2:"
			 : "+r"(count)
			 : "r"(&word), "r"(1)
			 : "memory", "cc");
	rounds = count;
	return NULL;
}

int main(void)
{
	struct timespec time = {.tv_nsec = 700 * 1000 * 1000};
	pthread_t waiter = start(wait_for_word, NULL);
	CHECK(nanosleep(&time, NULL) == 0);
	atomic_store(&word, 1);
	join(waiter);
	nondet("%ld rounds", rounds);
	return 0;
}
