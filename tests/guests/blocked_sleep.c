// Threads that sleep, or wait for a futex with a limit, while another computes.
// covers: nanosleep clock_nanosleep futex
#include "threads.h"

static atomic_int here[4], word;

static void *in_nanosleep(void *argument)
{
	struct timespec nap = {0, 4000000};
	announce(argument);
	int64_t before_ns = now_ns();
	CHECK(nanosleep(&nap, NULL) == 0);
	CHECK(now_ns() - before_ns >= 4000000);
	return (void *)1;
}

static void *in_clock_nanosleep(void *argument)
{
	struct timespec until = after_ns(CLOCK_MONOTONIC, 5000000);
	announce(argument);
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
	struct timespec now;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	CHECK(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
	return (void *)2;
}

static void *in_futex(void *argument)
{
	struct timespec limit = {0, 4000000};
	announce(argument);
	CHECK_ERR(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0), ETIMEDOUT);
	return (void *)3;
}

static void *in_futex_until(void *argument)
{
	struct timespec until = after_ns(CLOCK_REALTIME, 5000000);
	announce(argument);
	CHECK_ERR(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &until, NULL,
			  FUTEX_BITSET_MATCH_ANY),
		  ETIMEDOUT);
	return (void *)4;
}

int main(void)
{
	void *(*const bodies[4])(void *) = {in_nanosleep, in_clock_nanosleep, in_futex, in_futex_until};
	for (int round = 0; round < 4; round++) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++) {
			atomic_store(&here[i], 0);
			threads[i] = start(bodies[i], &here[i]);
		}
		say("meanwhile %llx", (unsigned long long)compute(6, 500000));
		for (int i = 0; i < 4; i++)
			say("round %d: %ld", round, join(threads[i]));
	}
	return 0;
}
