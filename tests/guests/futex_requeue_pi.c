// Condition variables over mutexes with priority inheritance, by the kernel's own commands.
// covers: futex
#include "threads.h"

enum { WAITERS = 6 };

static uint32_t condition, lock;
static atomic_int here, served;
static long counter;

static long futex(uint32_t *word, int operation, uint32_t value, const void *fourth, uint32_t *second,
		  uint32_t last)
{
	return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, fourth, second, last);
}

static void take(void)
{
	uint32_t seen = 0;
	if (!__atomic_compare_exchange_n(&lock, &seen, (uint32_t)own_tid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		CHECK(futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0);
}

static void let_go(void)
{
	uint32_t seen = (uint32_t)own_tid();
	if (!__atomic_compare_exchange_n(&lock, &seen, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		CHECK(futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0);
}

static void *wait_once(void *argument)
{
	take();
	uint32_t seen = condition;
	atomic_fetch_add(&here, 1);
	let_go();
	while (futex(&condition, FUTEX_WAIT_REQUEUE_PI, seen, NULL, &lock, 0) == -1) {
		CHECK(errno == EAGAIN);
		// It changed before: nothing to wait for, and the lock is not ours.
		take();
		break;
	}
	CHECK((lock & FUTEX_TID_MASK) == (uint32_t)own_tid());
	long before = counter;
	CHECK(compute((uint64_t)before, 200) != 1);
	counter = before + 1;
	let_go();
	atomic_fetch_add(&served, 1);
	return argument;
}

static void with_limit(void)
{
	struct timespec limit;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &limit) == 0);
	limit.tv_nsec += 20000000;
	if (limit.tv_nsec >= 1000000000) {
		limit.tv_sec++;
		limit.tv_nsec -= 1000000000;
	}
	CHECK_ERR(futex(&condition, FUTEX_WAIT_REQUEUE_PI, condition, &limit, &lock, 0), ETIMEDOUT);
	CHECK_ERR(futex(&condition, FUTEX_WAIT_REQUEUE_PI, condition + 1, NULL, &lock, 0), EAGAIN);
	CHECK_ERR(futex(&condition, FUTEX_WAIT_REQUEUE_PI, condition, NULL, &condition, 0), EINVAL);
	CHECK_ERR(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &lock, condition + 1), EAGAIN);
	CHECK_ERR(futex(&condition, FUTEX_CMP_REQUEUE_PI, 2, (void *)1, &lock, condition), EINVAL);
	CHECK(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &lock, condition) == 0);
	say("limits and errors");
}

int main(void)
{
	with_limit();
	for (int round = 0; round < 20; round++) {
		pthread_t threads[WAITERS];
		atomic_store(&here, 0);
		atomic_store(&served, 0);
		for (int i = 0; i < WAITERS; i++)
			threads[i] = start(wait_once, NULL);
		while (atomic_load(&here) < WAITERS)
			sched_yield();
		// Whoever has not begun to wait by now finds the word changed.
		while (atomic_load(&served) < WAITERS) {
			take();
			condition++;
			CHECK(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)(long)INT_MAX, &lock, condition) >= 0);
			let_go();
			sched_yield();
		}
		for (int i = 0; i < WAITERS; i++)
			join(threads[i]);
	}
	say("counted %ld", counter);
	return 0;
}
