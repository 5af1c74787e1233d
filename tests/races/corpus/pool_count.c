// Workers take jobs from a queue under its lock, and count what they did without it.
#include "corpus.h"

enum { WORKERS = 3, JOBS = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int queued, closed;
static long finished;

static void *work(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!queued && !closed)
			pthread_cond_wait(&more, &lock);
		if (!queued) {
			pthread_mutex_unlock(&lock);
			return unused;
		}
		queued--;
		pthread_mutex_unlock(&lock);
		finished++;
	}
}

int main(void)
{
	pthread_t workers[WORKERS];
	for (int i = 0; i < WORKERS; i++)
		workers[i] = start(work, NULL);
	for (int i = 0; i < JOBS; i++) {
		pthread_mutex_lock(&lock);
		queued++;
		pthread_cond_signal(&more);
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	closed = 1;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	if (finished != JOBS)
		caught("a job was done and not counted");
	return 0;
}
