// A thread that unlocks a mutex and locks it again at once, and makes calls only while it
// has it: others are let in nevertheless.
// covers: futex
#include "guest.h"
#include <pthread.h>

#define HOGS 4
#define ROUNDS 30

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

static void *hog(void *unused)
{
	(void)unused;
	while (!stop) {
		pthread_mutex_lock(&mutex);
		int fd = open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0666);
		CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[HOGS];
	for (int i = 0; i < HOGS; i++)
		CHECK(pthread_create(&threads[i], NULL, hog, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		nondet("round %d", i);
		pthread_mutex_unlock(&mutex);
	}
	stop = 1;
	for (int i = 0; i < HOGS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	say("let in %d times", ROUNDS);
	return 0;
}
