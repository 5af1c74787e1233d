// Futexes as one thread alone can use them.
// covers: futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list
// covers: membarrier rseq
#include "guest.h"
#include <linux/futex.h>

static uint32_t word = 5, other = 6;

static long futex(uint32_t *address, int operation, uint32_t value, void *timeout, uint32_t *second,
		  uint32_t third)
{
	return syscall(SYS_futex, address, operation, value, timeout, second, third);
}

int main(void)
{
	struct timespec limit = {0, 5000000};
	CHECK_ERR(futex(&word, FUTEX_WAIT, 4, NULL, NULL, 0), EAGAIN);
	CHECK_ERR(futex(&word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 5, &limit, NULL, 0), ETIMEDOUT);
	struct timespec until;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
	CHECK_ERR(futex(&word, FUTEX_WAIT_BITSET, 5, &until, NULL, 1), ETIMEDOUT);
	CHECK(futex(&word, FUTEX_WAKE, 100, NULL, NULL, 0) == 0);
	CHECK(futex(&word, FUTEX_REQUEUE, 1, (void *)1l, &other, 0) == 0);
	CHECK_ERR(futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1l, &other, 99), EAGAIN);
	CHECK(futex(&word, FUTEX_WAKE_OP, 1, (void *)1l, &other, FUTEX_OP(FUTEX_OP_ADD, 10, FUTEX_OP_CMP_EQ, 6)) ==
	      0);
	say("the kernel added: %u", other);
	uint32_t lock = 0;
	CHECK(futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0);
	say("locked by me: %d", (lock & FUTEX_TID_MASK) == (uint32_t)getpid());
	CHECK_ERR(futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0), EDEADLK);
	// Only the commands that know two clocks take the flag. Nobody else may sleep instead.
	CHECK_ERR(futex(&lock, FUTEX_LOCK_PI | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0), ENOSYS);
	CHECK_ERR(futex(&lock, FUTEX_TRYLOCK_PI | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0), ENOSYS);
	CHECK_ERR(futex(&lock, FUTEX_UNLOCK_PI | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0), ENOSYS);
	CHECK_ERR(futex(&word, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 4, NULL, NULL, 0), ENOSYS);
	CHECK_ERR(futex(&word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, 0), ENOSYS);
	CHECK(futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0);
	say("unlocked: %u", lock);
	CHECK_ERR(futex(BAD, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT);
	CHECK_ERR(futex(&word, 77, 1, NULL, NULL, 0), ENOSYS);

	void *head = NULL;
	size_t length = 0;
	CHECK(syscall(SYS_get_robust_list, 0, &head, &length) == 0);
	nondet("robust list %p", head);
	say("robust list length %zu", length);
	CHECK(syscall(SYS_set_robust_list, head, length) == 0);
	CHECK_ERR(syscall(SYS_set_robust_list, head, 7), EINVAL);
	nondet("membarrier commands %ld", syscall(SYS_membarrier, 0, 0, 0));
	nondet_outcome("rseq", syscall(SYS_rseq, NULL, 0, 0, 0));
	nondet_outcome("futex_waitv", syscall(449, NULL, 0, 0, NULL, 0));
	nondet_outcome("futex_wake", syscall(454, &word, 0xffffffff, 1, 2));
	nondet_outcome("futex_wait", syscall(455, &word, 1, 0xffffffff, 2, NULL, 0));
	nondet_outcome("futex_requeue", syscall(456, NULL, 0, 0, 0));
	return 0;
}
