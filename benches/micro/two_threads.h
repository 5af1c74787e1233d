// What the microbenchmarks of two threads share: the same function in both, told 0 and 1,
// COUNT times each.
#ifndef TWO_THREADS_H
#define TWO_THREADS_H
#include <pthread.h>

#include "micro.h"

static long count;

static inline int run_two_threads(int argc, char **argv, void *(*play)(void *))
{
	pthread_t other;
	count = micro_count(argc, argv);
	int64_t start = micro_now();
	micro_require(pthread_create(&other, NULL, play, (void *)1) == 0, "pthread_create");
	play((void *)0);
	pthread_join(other, NULL);
	micro_report(start);
	return 0;
}
#endif
