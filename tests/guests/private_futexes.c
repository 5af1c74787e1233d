// Private futexes beyond a hand-over: one who was woken while the other computes, timeouts,
// signals, hundreds of waits at a time, and a child of vfork that wakes its parent's thread.
// covers: futex vfork
#include "threads.h"

#define MANY 40

static atomic_int word, other, done, ready, here[MANY];
static volatile unsigned long sink;

static long futex(atomic_int *address, int operation, int value, void *fourth, atomic_int *second, int third)
{
	return syscall(SYS_futex, address, operation | FUTEX_PRIVATE_FLAG, value, fourth, second, third);
}

static void *answer(void *unused)
{
	(void)unused;
	announce(&here[0]);
	while (atomic_load(&word) == 0)
		futex(&word, FUTEX_WAIT, 0, NULL, NULL, 0);
	atomic_store(&done, 1);
	return NULL;
}

// No call between the wake and the answer: the one who waits must get its share all the same.
static void wake_and_spin(void)
{
	for (int round = 0; round < 5; round++) {
		atomic_store(&word, 0);
		atomic_store(&done, 0);
		atomic_store(&here[0], 0);
		pthread_t thread = start(answer, NULL);
		until_asleep(&here[0]);
		atomic_store(&word, 1);
		futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0);
		while (!atomic_load(&done))
			sink++;
		CHECK(pthread_join(thread, NULL) == 0);
	}
	say("spun for answers");
}

static void timeouts(void)
{
	struct timespec soon = { 0, 3000000 }, past = { 0, 0 }, wrong = { 0, 2000000000 };
	atomic_store(&word, 7);
	CHECK_ERR(futex(&word, FUTEX_WAIT, 7, &soon, NULL, 0), ETIMEDOUT);
	CHECK_ERR(futex(&word, FUTEX_WAIT_BITSET, 7, &past, NULL, -1), ETIMEDOUT);
	CHECK_ERR(futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 7, &past, NULL, 1), ETIMEDOUT);
	CHECK_ERR(futex(&word, FUTEX_WAIT, 8, &soon, NULL, 0), EAGAIN);
	CHECK_ERR(futex(&word, FUTEX_WAIT, 7, &wrong, NULL, 0), EINVAL);
	CHECK_ERR(futex(&word, FUTEX_WAIT_BITSET, 7, &soon, NULL, 0), EINVAL);
	CHECK_ERR(futex((atomic_int *)((char *)&word + 1), FUTEX_WAKE, 1, NULL, NULL, 0), EINVAL);
	CHECK_ERR(futex((atomic_int *)16, FUTEX_WAIT, 0, NULL, NULL, 0), EFAULT);
	CHECK_ERR(futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1, &other, 8), EAGAIN);
	CHECK_ERR(futex(&word, FUTEX_REQUEUE, -1, (void *)1, &other, 0), EINVAL);
	CHECK(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
	say("timeouts and errors");
}

static void *wait_for_many(void *argument)
{
	announce(&here[(long)argument]);
	while (!atomic_load(&done)) {
		int seen = atomic_load(&word);
		if (!atomic_load(&done))
			futex(&word, FUTEX_WAIT, seen, NULL, NULL, 0);
	}
	// Those that were moved wait here.
	while (atomic_load(&other) == 0)
		futex(&other, FUTEX_WAIT, 0, NULL, NULL, 0);
	atomic_fetch_add(&ready, 1);
	return NULL;
}

static void many_moved(void)
{
	pthread_t threads[MANY];
	atomic_store(&done, 0);
	atomic_store(&other, 0);
	for (long i = 0; i < MANY; i++) {
		atomic_store(&here[i], 0);
		threads[i] = start(wait_for_many, (void *)i);
	}
	for (int i = 0; i < MANY; i++)
		until_asleep(&here[i]);
	atomic_store(&done, 1);
	int seen = atomic_fetch_add(&word, 1) + 1;
	long touched = futex(&word, FUTEX_CMP_REQUEUE, 3, (void *)(long)INT_MAX, &other, seen);
	CHECK(touched >= 0 && touched <= MANY);
	CHECK(futex(&word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) == 0);
	atomic_store(&other, 1);
	long woken = futex(&other, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	CHECK(woken >= touched - 3 && woken <= MANY);
	for (int i = 0; i < MANY; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(ready == MANY);
	say("%d waited, some were moved, all are back", MANY);
}

static atomic_int handled;

static void on_usr1(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

static atomic_long interrupted;

static void *wait_interrupted(void *unused)
{
	(void)unused;
	announce(&here[0]);
	errno = 0;
	long result = futex(&word, FUTEX_WAIT, atomic_load(&word), NULL, NULL, 0);
	atomic_store(&interrupted, result == -1 ? errno : result);
	return NULL;
}

// Without SA_RESTART the call ends with EINTR, and nobody waits any more.
static void interrupted_by_signal(void)
{
	struct sigaction action = { .sa_handler = on_usr1 };
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	atomic_store(&here[0], 0);
	pthread_t thread = start(wait_interrupted, NULL);
	until_asleep(&here[0]);
	// A signal that comes before the call does not end it.
	do {
		CHECK(pthread_kill(thread, SIGUSR1) == 0);
		usleep(1000);
	} while (atomic_load(&interrupted) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(handled >= 1 && interrupted == EINTR);
	CHECK(futex(&word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) == 0);
	say("a signal ends a wait");
}

// The child has our memory, and so our futexes.
static void woken_by_child(void)
{
	atomic_store(&word, 0);
	atomic_store(&done, 0);
	atomic_store(&here[0], 0);
	pthread_t thread = start(answer, NULL);
	until_asleep(&here[0]);
	pid_t child = vfork();
	if (child == 0) {
		atomic_store(&word, 1);
		_exit(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) <= 1 ? 0 : 1);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	say("woken by a child of vfork");
}

// After fork nobody waits in the child: its only thread is woken by nobody but itself.
static void *wait_forever(void *unused)
{
	(void)unused;
	announce(&here[0]);
	while (!atomic_load(&done))
		futex(&word, FUTEX_WAIT, 1, NULL, NULL, 0);
	return NULL;
}

static void nobody_in_child(void)
{
	atomic_store(&word, 1);
	atomic_store(&done, 0);
	atomic_store(&here[0], 0);
	pthread_t thread = start(wait_forever, NULL);
	until_asleep(&here[0]);
	pid_t child = fork();
	if (child == 0) {
		pthread_t own = start(answer, NULL);
		int mine = futex(&word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) == 0;
		_exit(pthread_join(own, NULL) == 0 && mine ? 0 : 1);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	atomic_store(&done, 1);
	atomic_store(&word, 2);
	CHECK(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) <= 1);
	CHECK(pthread_join(thread, NULL) == 0);
	say("nobody waits in a child of fork");
}

int main(void)
{
	wake_and_spin();
	timeouts();
	many_moved();
	interrupted_by_signal();
	woken_by_child();
	nobody_in_child();
	return 0;
}
