// Eight threads pass a word on in a ring, COUNT times each, and call sched_yield(2) until it is theirs.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "micro.h"

enum { MEMBERS = 8 };

static atomic_int whose;
static long count;

static void *member(void *own)
{
	for (long i = 0; i < count; i++) {
		while (atomic_load(&whose) != (int)(long)own)
			sched_yield();
		atomic_store(&whose, (int)((long)own + 1) % MEMBERS);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MEMBERS];
	count = micro_count(argc, argv);
	int64_t start = micro_now();
	for (long i = 0; i < MEMBERS; i++)
		micro_require(pthread_create(&threads[i], NULL, member, (void *)i) == 0, "pthread_create");
	for (int i = 0; i < MEMBERS; i++)
		pthread_join(threads[i], NULL);
	micro_report(start);
	return 0;
}
