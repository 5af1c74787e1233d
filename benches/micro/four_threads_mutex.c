// Four threads that compute, and change something under one mutex: COUNT times each.
#include <pthread.h>

#include "micro.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shared;
static long count;

static void *work(void *own)
{
	uint64_t x = (uintptr_t)own;
	for (long i = 0; i < count; i++) {
		for (int j = 0; j < 500; j++)
			x = x * 6364136223846793005u + 1442695040888963407u;
		pthread_mutex_lock(&lock);
		shared += x >> 60;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[4];
	count = micro_count(argc, argv);
	int64_t start = micro_now();
	for (long i = 0; i < 4; i++)
		micro_require(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	micro_report(start);
	return shared == 0;
}
