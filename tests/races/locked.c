// Nothing to be found: threads count under a mutex, hand over by a condition, publish by a join, and
// reuse memory that others have freed.
#include "corpus/corpus.h"

enum { ROUNDS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static long counted, results[3];
static char *handed;

static void *work(void *own)
{
	long *result = own;
	for (int i = 0; i < ROUNDS; i++) {
		char *block = malloc(64);
		memset(block, i, 64);
		pthread_mutex_lock(&lock);
		counted++;
		pthread_mutex_unlock(&lock);
		*result += block[i];
		free(block);
	}
	return NULL;
}

static void *take(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!handed)
		pthread_cond_wait(&filled, &lock);
	char *taken = handed;
	pthread_mutex_unlock(&lock);
	results[2] = strlen(taken);
	free(taken);
	return NULL;
}

int main(void)
{
	pthread_t taker = start(take, NULL);
	pthread_t workers[] = { start(work, &results[0]), start(work, &results[1]) };
	char *text = strdup("a text");
	pthread_mutex_lock(&lock);
	handed = text;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 2; i++)
		pthread_join(workers[i], NULL);
	pthread_join(taker, NULL);
	printf("%ld %ld %ld %ld\n", counted, results[0], results[1], results[2]);
	return 0;
}
