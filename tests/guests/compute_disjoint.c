// Threads that compute each in a part of an array, without locks or calls, then are joined.
// covers: clone3 futex
#include "threads.h"

#define THREADS 2
#define NUMBERS 60000

static uint64_t numbers[NUMBERS];
static double floats[NUMBERS], totals[THREADS];

static void *fill(void *argument)
{
	long me = (long)argument;
	for (long i = me * (NUMBERS / THREADS); i < (me + 1) * (NUMBERS / THREADS); i++) {
		numbers[i] = compute((uint64_t)i, 20);
		floats[i] = (double)(numbers[i] % 1000003) / 7.0;
	}
	return NULL;
}

// Neighbours in memory, on the same lines of the cache.
static void *interleave(void *argument)
{
	for (long i = (long)argument; i < NUMBERS; i += THREADS)
		numbers[i] = numbers[i] * 31 + (uint64_t)i;
	return NULL;
}

static void *sum(void *argument)
{
	long me = (long)argument;
	double total = 0;
	for (long i = me * (NUMBERS / THREADS); i < (me + 1) * (NUMBERS / THREADS); i++)
		total += floats[i] * 1.0000001;
	totals[me] = total;
	return NULL;
}

int main(void)
{
	void *(*const steps[])(void *) = {fill, interleave, interleave, sum};
	for (unsigned step = 0; step < COUNT(steps); step++) {
		pthread_t threads[THREADS];
		for (long i = 0; i < THREADS; i++)
			threads[i] = start(steps[step], (void *)i);
		for (int i = 0; i < THREADS; i++)
			join(threads[i]);
		say("step %u: %llx %llx", step, (unsigned long long)hash_bytes(numbers, sizeof numbers),
		    (unsigned long long)hash_bytes(floats, sizeof floats));
	}
	say("totals %.6f %.6f", totals[0], totals[1]);
	return 0;
}
