// Threads, mutexes, conditions and thread-specific storage of C11.
// covers: clone3 futex
#include "guest.h"
// In angle brackets it is the C library's, not the guests' header of that name.
#include <threads.h>

static mtx_t lock;
static cnd_t changed;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;
static thread_local int own = 3;
static int initialised, arrived, destroyed;

static void initialise(void)
{
	initialised++;
}

static void destroy(void *value)
{
	mtx_lock(&lock);
	destroyed += *(int *)value;
	mtx_unlock(&lock);
}

static int work(void *argument)
{
	static int values[4] = {1, 2, 3, 4};
	int me = *(int *)argument;
	call_once(&once, initialise);
	CHECK(tss_set(key, &values[me]) == thrd_success);
	own += me;
	CHECK(mtx_lock(&lock) == thrd_success);
	arrived++;
	CHECK(cnd_broadcast(&changed) == thrd_success);
	while (arrived < 4)
		CHECK(cnd_wait(&changed, &lock) == thrd_success);
	CHECK(mtx_unlock(&lock) == thrd_success);
	CHECK(*(int *)tss_get(key) == me + 1);
	if (me == 2)
		thrd_exit(100 + own);
	thrd_yield();
	return own;
}

int main(void)
{
	thrd_t threads[4];
	int numbers[4], result;
	CHECK(mtx_init(&lock, mtx_timed) == thrd_success && cnd_init(&changed) == thrd_success);
	CHECK(tss_create(&key, destroy) == thrd_success);
	for (int i = 0; i < 4; i++) {
		numbers[i] = i;
		CHECK(thrd_create(&threads[i], work, &numbers[i]) == thrd_success);
	}
	for (int i = 0; i < 4; i++) {
		CHECK(thrd_join(threads[i], &result) == thrd_success);
		say("thread %d: %d", i, result);
	}
	say("initialised %d, destroyed %d, own %d", initialised, destroyed, own);
	struct timespec limit;
	CHECK(timespec_get(&limit, TIME_UTC) == TIME_UTC && mtx_lock(&lock) == thrd_success);
	CHECK(cnd_timedwait(&changed, &lock, &limit) == thrd_timedout);
	CHECK(mtx_trylock(&lock) == thrd_busy && mtx_timedlock(&lock, &limit) == thrd_timedout);
	CHECK(mtx_unlock(&lock) == thrd_success);
	CHECK(thrd_sleep(&(struct timespec){0, 1000000}, NULL) == 0);
	return 0;
}
