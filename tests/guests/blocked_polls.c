// Threads blocked in epoll_wait, poll, select, eventfd and timerfd while another computes.
// covers: epoll_wait epoll_pwait poll ppoll select pselect6 read eventfd2 timerfd_settime
#include "threads.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static int pipe_ends[2], epoll, event;
static atomic_int here;

static void *in_epoll(void *argument)
{
	struct epoll_event events[4] = {{0}};
	(void)argument;
	announce(&here);
	CHECK(epoll_wait(epoll, events, 4, -1) == 1);
	return (void *)(events[0].data.u64 * 100 + events[0].events);
}

static void *in_poll(void *argument)
{
	struct pollfd both[2] = {{.fd = pipe_ends[0], .events = POLLIN}, {.fd = event, .events = POLLIN}};
	(void)argument;
	announce(&here);
	CHECK(poll(both, 2, -1) == 1);
	return (void *)(long)(both[0].revents * 10 + both[1].revents);
}

static void *in_select(void *argument)
{
	fd_set in;
	(void)argument;
	FD_ZERO(&in);
	FD_SET(pipe_ends[0], &in);
	FD_SET(event, &in);
	announce(&here);
	CHECK(select(event + pipe_ends[0] + 1, &in, NULL, NULL, NULL) == 1);
	return (void *)(long)(FD_ISSET(pipe_ends[0], &in) * 10 + FD_ISSET(event, &in));
}

static void *in_eventfd(void *argument)
{
	uint64_t value = 0;
	(void)argument;
	announce(&here);
	CHECK(read(event, &value, sizeof value) == sizeof value);
	// As the others' readiness, it is there for one.
	CHECK(write(event, &value, sizeof value) == sizeof value);
	return (void *)value;
}

static void *in_timerfd(void *argument)
{
	uint64_t ticks = 0;
	struct itimerspec t = {{0, 0}, {0, 3000000}};
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	(void)argument;
	CHECK(timer >= 0 && timerfd_settime(timer, 0, &t, NULL) == 0);
	announce(&here);
	CHECK(read(timer, &ticks, sizeof ticks) == sizeof ticks && close(timer) == 0);
	return (void *)ticks;
}

static void *in_poll_with_limit(void *argument)
{
	struct pollfd in = {.fd = pipe_ends[0], .events = POLLIN};
	(void)argument;
	announce(&here);
	return (void *)(long)poll(&in, 1, 3);
}

static void woken(const char *name, void *(*body)(void *), int by_event)
{
	uint64_t seven = 7;
	char byte;
	atomic_store(&here, 0);
	pthread_t thread = start(body, NULL);
	until_asleep(&here);
	say("meanwhile %llx", (unsigned long long)compute(3, 200000));
	CHECK(by_event ? write(event, &seven, sizeof seven) == sizeof seven : write(pipe_ends[1], "p", 1) == 1);
	say("%s: %ld", name, join(thread));
	CHECK(by_event ? read(event, &seven, sizeof seven) == sizeof seven : read(pipe_ends[0], &byte, 1) == 1);
}

int main(void)
{
	CHECK(pipe(pipe_ends) == 0);
	event = eventfd(0, EFD_CLOEXEC);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(event >= 0 && epoll >= 0);
	struct epoll_event on_pipe = {.events = EPOLLIN, .data.u64 = 1}, on_event = {.events = EPOLLIN, .data.u64 = 2};
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_ends[0], &on_pipe) == 0);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &on_event) == 0);
	for (int by_event = 0; by_event < 2; by_event++) {
		woken("epoll_wait", in_epoll, by_event);
		woken("poll", in_poll, by_event);
		woken("select", in_select, by_event);
	}
	woken("eventfd", in_eventfd, 1);
	say("timerfd: %ld", join(start(in_timerfd, NULL)));
	say("poll in vain: %ld", join(start(in_poll_with_limit, NULL)));
	return 0;
}
