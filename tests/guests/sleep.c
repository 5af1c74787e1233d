// Sleeping in every way.
// covers: nanosleep clock_nanosleep sched_yield
#include "guest.h"
#include <poll.h>
#include <sched.h>
#include <sys/select.h>

int main(void)
{
	int64_t before = now_ns();
	struct timespec t = {0, 10000000};
	CHECK(syscall(SYS_nanosleep, &t, NULL) == 0);
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == 0);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	t.tv_nsec += 10000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == 0);
	CHECK(poll(NULL, 0, 10) == 0);
	struct timeval tv = {0, 10000};
	CHECK(select(0, NULL, NULL, NULL, &tv) == 0 && tv.tv_usec == 0);
	usleep(10000);
	for (int i = 0; i < 10; i++)
		CHECK(sched_yield() == 0);
	int64_t slept = now_ns() - before;
	nondet("slept %lld", (long long)slept);
	say("at least 60 ms: %d", slept >= 60000000);
	t = (struct timespec){0, 1000000000};
	CHECK_ERR(nanosleep(&t, NULL), EINVAL);
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == EINVAL);
	return 0;
}
