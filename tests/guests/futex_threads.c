// Futexes between threads: wake counts, bitsets, requeue, wake-op, and several words at once.
// covers: futex futex_waitv
#include "threads.h"

#define WAITERS 4

static atomic_int words[2], second, here[WAITERS], woken, go;

static long futex(atomic_int *address, int operation, int value, long fourth, atomic_int *other, int third)
{
	return syscall(SYS_futex, address, operation | FUTEX_PRIVATE_FLAG, value, fourth, other, third);
}

// Before a wake: one who has not gone to sleep yet looks again. The word's value.
static int change_word(void)
{
	return atomic_fetch_add(&words[0], 1) + 1;
}

// Returns only when a wake was meant for it, however often it is woken otherwise.
static void *wait_plain(void *argument)
{
	announce(&here[(long)argument]);
	for (;;) {
		int seen = atomic_load(&words[0]);
		if (atomic_load(&go))
			break;
		futex(&words[0], FUTEX_WAIT, seen, 0, NULL, 0);
	}
	atomic_fetch_add(&woken, 1);
	return NULL;
}

static void *wait_bitset(void *argument)
{
	long index = (long)argument;
	announce(&here[index]);
	for (;;) {
		int seen = atomic_load(&words[0]);
		if (atomic_load(&go) & (1 << index))
			return (void *)(100 + index);
		futex(&words[0], FUTEX_WAIT_BITSET, seen, 0, NULL, 1 << index);
	}
}

static void begin(pthread_t *threads, void *(*body)(void *))
{
	atomic_store(&go, 0);
	atomic_store(&woken, 0);
	for (long i = 0; i < WAITERS; i++) {
		atomic_store(&here[i], 0);
		threads[i] = start(body, (void *)i);
	}
	for (int i = 0; i < WAITERS; i++)
		until_asleep(&here[i]);
}

static void wake_all_at_once(void)
{
	pthread_t threads[WAITERS];
	begin(threads, wait_plain);
	atomic_store(&go, 1);
	change_word();
	nondet("woke %ld", futex(&words[0], FUTEX_WAKE, INT_MAX, 0, NULL, 0));
	for (int i = 0; i < WAITERS; i++)
		join(threads[i]);
	say("woken %d", atomic_load(&woken));
}

static void wake_by_bits(void)
{
	pthread_t threads[WAITERS];
	begin(threads, wait_bitset);
	for (int i = WAITERS - 1; i >= 0; i--) {
		atomic_fetch_or(&go, 1 << i);
		change_word();
		nondet("bit %d woke %ld", i, futex(&words[0], FUTEX_WAKE_BITSET, INT_MAX, 0, NULL, 1 << i));
		say("bit %d: %ld", i, join(threads[i]));
	}
}

static void requeue(void)
{
	pthread_t threads[WAITERS];
	begin(threads, wait_plain);
	atomic_store(&go, 1);
	int value = change_word();
	nondet("requeued and woke %ld", futex(&words[0], FUTEX_CMP_REQUEUE, 1, INT_MAX, &second, value));
	nondet("woke of the second word %ld", futex(&second, FUTEX_WAKE, INT_MAX, 0, NULL, 0));
	for (int i = 0; i < WAITERS; i++)
		join(threads[i]);
	say("requeued, then woken %d", atomic_load(&woken));
}

static void wake_op(void)
{
	pthread_t threads[WAITERS];
	begin(threads, wait_plain);
	atomic_store(&go, 1);
	atomic_store(&second, 5);
	change_word();
	nondet("wake-op woke %ld", futex(&words[0], FUTEX_WAKE_OP, INT_MAX, 0, &second,
					 FUTEX_OP(FUTEX_OP_ADD, 37, FUTEX_OP_CMP_EQ, 5)));
	for (int i = 0; i < WAITERS; i++)
		join(threads[i]);
	say("the kernel added: %d", atomic_load(&second));
}

struct wait_vector {
	uint64_t value, address;
	uint32_t flags, reserved;
};

// Kernels before 5.16 have no futex_waitv: then it waits for its word alone.
static void *wait_for_two(void *argument)
{
	struct wait_vector vector[2] = {{0, (uintptr_t)&words[0], FUTEX_PRIVATE_FLAG | 2, 0},
					{0, (uintptr_t)&words[1], FUTEX_PRIVATE_FLAG | 2, 0}};
	(void)argument;
	announce(&here[0]);
	while (atomic_load(&words[1]) == 0)
		if (syscall(449, vector, 2, 0, NULL, CLOCK_MONOTONIC) == -1 && errno != EAGAIN)
			futex(&words[1], FUTEX_WAIT, 0, 0, NULL, 0);
	return (void *)(long)atomic_load(&words[1]);
}

int main(void)
{
	for (int i = 0; i < 3; i++) {
		wake_all_at_once();
		wake_by_bits();
		requeue();
		wake_op();
	}
	atomic_store(&here[0], 0);
	atomic_store(&words[0], 0);
	pthread_t thread = start(wait_for_two, NULL);
	until_asleep(&here[0]);
	atomic_store(&words[1], 6);
	futex(&words[1], FUTEX_WAKE, 1, 0, NULL, 0);
	say("the second of two words: %ld", join(thread));
	return 0;
}
