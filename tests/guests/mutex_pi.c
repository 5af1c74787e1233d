// Priority-inheriting mutexes: contended, tried, with a limit, and robust.
// covers: futex
#include "threads.h"

static pthread_mutex_t lock;
static atomic_int here, held, let_go;
static long counter;

static void make(int is_robust)
{
	pthread_mutexattr_t attributes;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
	if (is_robust)
		CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
	CHECK(pthread_mutex_init(&lock, &attributes) == 0);
}

static void *count(void *argument)
{
	for (int i = 0; i < 300; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		long before = counter;
		CHECK(compute((uint64_t)i, 100) != 1);
		counter = before + 1;
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	return argument;
}

static void *hold(void *argument)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	post(&held, 1);
	await(&let_go);
	if (!argument)
		CHECK(pthread_mutex_unlock(&lock) == 0);
	return argument;
}

static void *wait_for_it(void *argument)
{
	announce(&here);
	int error = pthread_mutex_lock(&lock);
	if (error == EOWNERDEAD)
		CHECK(pthread_mutex_consistent(&lock) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0 && argument == NULL);
	return (void *)(long)error;
}

static void held_by_another(int dies)
{
	struct timespec limit;
	make(dies);
	atomic_store(&held, 0);
	atomic_store(&here, 0);
	atomic_store(&let_go, 0);
	pthread_t owner = start(hold, dies ? (void *)1 : NULL);
	await(&held);
	pthread_t waiter = start(wait_for_it, NULL);
	until_asleep(&here);
	CHECK(pthread_mutex_trylock(&lock) == EBUSY);
	limit = after_ns(CLOCK_REALTIME, 2000000);
	CHECK(pthread_mutex_timedlock(&lock, &limit) == ETIMEDOUT);
	post(&let_go, 1);
	join(owner);
	int error = (int)join(waiter);
	say("the waiter got it: %s", error ? errno_name(error) : "ok");
}

int main(void)
{
	pthread_t threads[3];
	make(0);
	for (int i = 0; i < 3; i++)
		threads[i] = start(count, NULL);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	say("counted %ld", counter);
	for (int i = 0; i < 4; i++)
		held_by_another(i % 2);
	return 0;
}
