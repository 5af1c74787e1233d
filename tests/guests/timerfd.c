// Timers read from descriptors.
// covers: timerfd_create timerfd_settime timerfd_gettime
#include "guest.h"
#include <poll.h>
#include <sys/timerfd.h>

int main(void)
{
	uint64_t expired;
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	CHECK(fd >= 0);
	CHECK_ERR(read(fd, &expired, 8), EAGAIN);
	struct itimerspec t = {{0, 5000000}, {0, 5000000}}, now;
	CHECK(timerfd_settime(fd, 0, &t, NULL) == 0);
	struct pollfd p = {fd, POLLIN, 0};
	uint64_t total = 0;
	while (total < 6) {
		CHECK(poll(&p, 1, -1) == 1);
		CHECK(read(fd, &expired, 8) == 8);
		nondet("expired %llu", (unsigned long long)expired);
		total += expired;
	}
	CHECK(timerfd_gettime(fd, &now) == 0);
	nondet("left %ld", now.it_value.tv_nsec);
	say("interval %ld", now.it_interval.tv_nsec);
	int absolute = timerfd_create(CLOCK_REALTIME, 0);
	struct timespec clock;
	CHECK(clock_gettime(CLOCK_REALTIME, &clock) == 0);
	t = (struct itimerspec){{0, 0}, {clock.tv_sec, clock.tv_nsec}};
	CHECK(timerfd_settime(absolute, TFD_TIMER_ABSTIME, &t, NULL) == 0);
	CHECK(read(absolute, &expired, 8) == 8);
	say("absolute: %llu", (unsigned long long)expired);
	CHECK_ERR(read(absolute, &expired, 4), EINVAL);
	CHECK_ERR(timerfd_settime(0, 0, &t, NULL), EINVAL);
	return 0;
}
