// Condition variables: a signal for one, a broadcast for all, limits by both clocks.
// covers: futex
#include "threads.h"

#define THREADS 5

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, generation, waiting;
static char order[64];

// Each in its turn: the broadcast wakes all, and one goes on.
static void *take_turns(void *argument)
{
	int me = (int)(long)argument;
	for (int i = 0; i < 10; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		while (turn != me)
			CHECK(pthread_cond_wait(&changed, &lock) == 0);
		order[strlen(order)] = (char)('a' + me);
		turn = (turn + 1) % THREADS;
		CHECK(pthread_cond_broadcast(&changed) == 0);
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	return NULL;
}

// A signal lets one of the waiting go.
static void *wait_for_a_ticket(void *argument)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	waiting++;
	while (generation == 0)
		CHECK(pthread_cond_wait(&changed, &lock) == 0);
	generation--;
	waiting--;
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return argument;
}

static void *wait_in_vain(void *argument)
{
	pthread_condattr_t attributes;
	pthread_cond_t never;
	clockid_t clock = (clockid_t)(long)argument;
	CHECK(pthread_condattr_init(&attributes) == 0 && pthread_condattr_setclock(&attributes, clock) == 0);
	CHECK(pthread_cond_init(&never, &attributes) == 0);
	CHECK(pthread_mutex_lock(&lock) == 0);
	struct timespec limit = after_ns(clock, 3000000);
	int error;
	while ((error = pthread_cond_timedwait(&never, &lock, &limit)) == 0)
		;
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return (void *)(long)error;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(take_turns, (void *)i);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	say("turns %s", order);
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(wait_for_a_ticket, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		generation++;
		CHECK(pthread_cond_signal(&changed) == 0);
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(join(threads[i]) == i);
	say("still waiting %d, tickets %d", waiting, generation);
	pthread_t real = start(wait_in_vain, (void *)CLOCK_REALTIME);
	pthread_t monotonic = start(wait_in_vain, (void *)CLOCK_MONOTONIC);
	say("by the real clock: %s", errno_name((int)join(real)));
	say("by the monotonic clock: %s", errno_name((int)join(monotonic)));
	return 0;
}
