// Two threads that take turns by a mutex and a condition: COUNT times each.
#include <pthread.h>

#include "micro.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static long count;

static void *play(void *own)
{
	for (long i = 0; i < count; i++) {
		pthread_mutex_lock(&lock);
		while (turn != (int)(long)own)
			pthread_cond_wait(&changed, &lock);
		turn = !turn;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
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
