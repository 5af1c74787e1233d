// Mutexes of each kind: normal, recursive, error checking, adaptive; tried and with a limit.
// covers: futex
#include "threads.h"

static pthread_mutex_t lock;
static atomic_int held, let_go;
static long counter;

static void make(int type)
{
	pthread_mutexattr_t attributes;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_settype(&attributes, type) == 0);
	CHECK(pthread_mutex_init(&lock, &attributes) == 0);
}

static void *count(void *argument)
{
	for (int i = 0; i < 500; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		long before = counter;
		CHECK(compute((uint64_t)i, 50) != 1);
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
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return argument;
}

static void each_kind(const char *name, int type)
{
	pthread_t threads[3];
	make(type);
	counter = 0;
	for (int i = 0; i < 3; i++)
		threads[i] = start(count, NULL);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	atomic_store(&held, 0);
	atomic_store(&let_go, 0);
	pthread_t owner = start(hold, NULL);
	await(&held);
	struct timespec limit = after_ns(CLOCK_REALTIME, 2000000);
	int tried = pthread_mutex_trylock(&lock), timed = pthread_mutex_timedlock(&lock, &limit);
	limit = after_ns(CLOCK_MONOTONIC, 2000000);
	int clocked = pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &limit);
	post(&let_go, 1);
	join(owner);
	say("%s: counted %ld; held by another: %s, %s, %s", name, counter, errno_name(tried), errno_name(timed),
	    errno_name(clocked));
	CHECK(pthread_mutex_lock(&lock) == 0);
	say("%s: held by itself: %d", name, pthread_mutex_trylock(&lock));
	CHECK(pthread_mutex_unlock(&lock) == 0);
}

int main(void)
{
	each_kind("normal", PTHREAD_MUTEX_NORMAL);
	each_kind("recursive", PTHREAD_MUTEX_RECURSIVE);
	each_kind("error checking", PTHREAD_MUTEX_ERRORCHECK);
	each_kind("adaptive", PTHREAD_MUTEX_ADAPTIVE_NP);
	make(PTHREAD_MUTEX_ERRORCHECK);
	CHECK(pthread_mutex_unlock(&lock) == EPERM);
	CHECK(pthread_mutex_lock(&lock) == 0 && pthread_mutex_lock(&lock) == EDEADLK);
	return 0;
}
