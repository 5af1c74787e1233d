// Detached threads, counted as they end, and one that is still there when the process ends.
// covers: exit_group munmap
#include "threads.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ended;
static uint64_t sum;

static void *work(void *argument)
{
	uint64_t value = compute((uintptr_t)argument, 20000);
	CHECK(pthread_mutex_lock(&lock) == 0);
	sum += value;
	ended++;
	CHECK(pthread_cond_signal(&changed) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return NULL;
}

static void *detach_itself(void *argument)
{
	CHECK(pthread_detach(pthread_self()) == 0);
	return work(argument);
}

static void *for_ever(void *argument)
{
	volatile uint64_t state = 1;
	post(argument, 1);
	for (;;)
		state = compute(state, 1000);
	return NULL;
}

int main(void)
{
	pthread_attr_t attributes;
	static atomic_int runs;
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
	for (long i = 0; i < 30; i++) {
		pthread_t thread;
		if (i % 3 == 0) {
			CHECK(pthread_create(&thread, &attributes, work, (void *)i) == 0);
		} else if (i % 3 == 1) {
			CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0);
			CHECK(pthread_detach(thread) == 0);
		} else {
			CHECK(pthread_create(&thread, NULL, detach_itself, (void *)i) == 0);
		}
	}
	CHECK(pthread_mutex_lock(&lock) == 0);
	while (ended < 30)
		CHECK(pthread_cond_wait(&changed, &lock) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	say("ended %d, sum %llx", ended, (unsigned long long)sum);
	pthread_t thread;
	CHECK(pthread_create(&thread, &attributes, for_ever, &runs) == 0);
	await(&runs);
	say("leaving a detached thread behind");
	return 0;
}
