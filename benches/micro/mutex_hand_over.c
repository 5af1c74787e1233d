// Two threads that take turns by a mutex and a condition: COUNT times each.
#include "two_threads.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

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
	return run_two_threads(argc, argv, play);
}
