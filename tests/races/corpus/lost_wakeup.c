// A flag is set and signalled without the mutex: a waiter that has just looked sleeps on.
#include "corpus.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_int is_ready;

static void *wait_for_it(void *unused)
{
	struct timespec limit;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	pthread_mutex_lock(&lock);
	while (!atomic_load(&is_ready))
		if (pthread_cond_timedwait(&changed, &lock, &limit) == ETIMEDOUT && atomic_load(&is_ready))
			caught("it was ready, and nobody was woken");
	pthread_mutex_unlock(&lock);
	return unused;
}

int main(void)
{
	pthread_t waiter = start(wait_for_it, NULL);
	atomic_store(&is_ready, 1);
	pthread_cond_signal(&changed);
	pthread_join(waiter, NULL);
	return 0;
}
