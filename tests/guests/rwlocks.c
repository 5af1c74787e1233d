// Read-write locks: readers together, writers alone, either preferred, with limits.
// covers: futex
#include "threads.h"

static pthread_rwlock_t lock;
static pthread_barrier_t all_read;
static atomic_int inside, together, writers_inside;
static long first, second;

static void *read_together(void *argument)
{
	CHECK(pthread_rwlock_rdlock(&lock) == 0);
	// Passed only if all three hold it.
	pthread_barrier_wait(&all_read);
	atomic_fetch_add(&together, 1);
	CHECK(pthread_rwlock_unlock(&lock) == 0);
	for (int i = 0; i < 200; i++) {
		CHECK(pthread_rwlock_rdlock(&lock) == 0);
		atomic_fetch_add(&inside, 1);
		CHECK(atomic_load(&writers_inside) == 0 && first == second);
		atomic_fetch_sub(&inside, 1);
		CHECK(pthread_rwlock_unlock(&lock) == 0);
	}
	return argument;
}

static void *write_alone(void *argument)
{
	for (int i = 0; i < 100; i++) {
		CHECK(pthread_rwlock_wrlock(&lock) == 0);
		CHECK(atomic_fetch_add(&writers_inside, 1) == 0 && atomic_load(&inside) == 0);
		first++;
		CHECK(compute((uint64_t)first, 100) != 1);
		second++;
		atomic_fetch_sub(&writers_inside, 1);
		CHECK(pthread_rwlock_unlock(&lock) == 0);
	}
	return argument;
}

static void *try_in_vain(void *argument)
{
	struct timespec limit = after_ns(CLOCK_REALTIME, 2000000);
	CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY && pthread_rwlock_trywrlock(&lock) == EBUSY);
	CHECK(pthread_rwlock_timedrdlock(&lock, &limit) == ETIMEDOUT);
	CHECK(pthread_rwlock_timedwrlock(&lock, &limit) == ETIMEDOUT);
	return argument;
}

static void each_preference(const char *name, int preference)
{
	pthread_rwlockattr_t attributes;
	pthread_t readers[3], writers[2];
	CHECK(pthread_rwlockattr_init(&attributes) == 0);
	CHECK(pthread_rwlockattr_setkind_np(&attributes, preference) == 0);
	CHECK(pthread_rwlock_init(&lock, &attributes) == 0);
	CHECK(pthread_barrier_init(&all_read, NULL, 3) == 0);
	for (int i = 0; i < 3; i++)
		readers[i] = start(read_together, NULL);
	// A writer that waits would keep later readers out of the barrier.
	while (atomic_load(&together) < 3)
		sched_yield();
	for (int i = 0; i < 2; i++)
		writers[i] = start(write_alone, NULL);
	for (int i = 0; i < 3; i++)
		join(readers[i]);
	for (int i = 0; i < 2; i++)
		join(writers[i]);
	say("%s: %ld %ld, together %d", name, first, second, atomic_load(&together));
	CHECK(pthread_rwlock_wrlock(&lock) == 0 && pthread_rwlock_wrlock(&lock) == EDEADLK);
	join(start(try_in_vain, NULL));
	CHECK(pthread_rwlock_unlock(&lock) == 0);
	atomic_store(&together, 0);
}

int main(void)
{
	each_preference("readers first", PTHREAD_RWLOCK_PREFER_READER_NP);
	each_preference("writers first", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	return 0;
}
