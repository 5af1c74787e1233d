// Two threads that compute for some 50 microseconds and then wait for each other in a loop
// with `pause`, as parallel loops of OpenMP do: COUNT times.
#include <stdatomic.h>
#include <stdint.h>

#include "two_threads.h"

#define STEPS 40000

static atomic_long arrived;
static volatile uint64_t results[2];

static void *play(void *own)
{
	uint64_t state = (uint64_t)(long)own + 1;
	for (long i = 1; i <= count; i++) {
		for (int step = 0; step < STEPS; step++)
			state = state * 6364136223846793005u + 1442695040888963407u;
		atomic_fetch_add(&arrived, 1);
		while (atomic_load(&arrived) < 2 * i)
			__builtin_ia32_pause();
	}
	results[(long)own] = state;
	return NULL;
}

int main(int argc, char **argv)
{
	return run_two_threads(argc, argv, play);
}
