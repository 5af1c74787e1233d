// A thousand threads, all blocked on one condition, then released.
// covers: clone3 futex mmap
#include "threads.h"

#define THREADS 1000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER, released = PTHREAD_COND_INITIALIZER;
static int waiting, open_gate;

static void *wait_at_the_gate(void *argument)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	if (++waiting == THREADS)
		CHECK(pthread_cond_signal(&arrived) == 0);
	while (!open_gate)
		CHECK(pthread_cond_wait(&released, &lock) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return argument;
}

int main(void)
{
	static pthread_t threads[THREADS];
	pthread_attr_t attributes;
	long sum = 0;
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], &attributes, wait_at_the_gate, (void *)i) == 0);
	CHECK(pthread_mutex_lock(&lock) == 0);
	while (waiting < THREADS)
		CHECK(pthread_cond_wait(&arrived, &lock) == 0);
	say("all %d wait", waiting);
	open_gate = 1;
	CHECK(pthread_cond_broadcast(&released) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	for (int i = 0; i < THREADS; i++)
		sum += join(threads[i]);
	say("all have passed: %ld", sum);
	return 0;
}
