// Loops, reductions, sections and tasks that OpenMP divides among threads.
// build: -fopenmp
// covers: clone3 futex sched_getaffinity
#include "threads.h"
#include <omp.h>

#define NUMBERS 20000

static uint64_t numbers[NUMBERS];

static long fibonacci(int n)
{
	long a, b;
	if (n < 2)
		return n;
#pragma omp task shared(a) if (n > 8)
	a = fibonacci(n - 1);
	b = fibonacci(n - 2);
#pragma omp taskwait
	return a + b;
}

int main(void)
{
	uint64_t sum = 0;
	long result = 0, critical = 0;
	int order = 0, is_ordered = 1;
	omp_set_dynamic(0);
	omp_set_num_threads(4);
#pragma omp parallel for schedule(static)
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = compute((uint64_t)i, 20);
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : sum)
	for (int i = 0; i < NUMBERS; i++)
		sum += numbers[i];
	say("sum %llx", (unsigned long long)sum);
#pragma omp parallel
	{
#pragma omp single
		result = fibonacci(14);
#pragma omp critical
		critical += omp_get_thread_num() + 1;
	}
	say("fibonacci %ld, critical %ld", result, critical);
#pragma omp parallel for ordered
	for (int i = 0; i < 40; i++) {
		uint64_t value = compute((uint64_t)i, 50);
#pragma omp ordered
		{
			is_ordered &= order == i && value != 1;
			order++;
		}
	}
	say("ordered %d", is_ordered);
	return 0;
}
