// Two threads that compute and make no call: COUNT steps each.
#include <pthread.h>

#include "micro.h"

static void *compute(void *count)
{
	uint64_t x = 1;
	for (long i = 0; i < (long)count; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return (void *)x;
}

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	pthread_t threads[2];
	void *result, *sum = NULL;
	int64_t start = micro_now();
	for (int i = 0; i < 2; i++)
		micro_require(pthread_create(&threads[i], NULL, compute, (void *)count) == 0, "pthread_create");
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &result);
		sum = (void *)((uintptr_t)sum ^ (uintptr_t)result);
	}
	micro_report(start);
	return sum == (void *)1;
}
