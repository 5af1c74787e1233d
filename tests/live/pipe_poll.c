// Input that is to be read again is there for poll, select, epoll and FIONREAD too,
// although the kernel's pipe is empty, and no longer when it was read.
// prints: nothing more
// prints: poll: ready
// prints: select: ready
// prints: epoll: ready
// prints: 5 bytes
// prints: again: words
// prints: nothing more
#include "live.h"
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>

static int input[2], events;

static int polled(void)
{
	struct pollfd wanted = {.fd = input[0], .events = POLLIN};
	int ready = poll(&wanted, 1, 0);
	CHECK(ready >= 0);
	return ready && wanted.revents & POLLIN;
}

static int selected(void)
{
	fd_set set;
	struct timeval none = {0};
	FD_ZERO(&set);
	FD_SET(input[0], &set);
	int ready = select(input[0] + 1, &set, NULL, NULL, &none);
	CHECK(ready >= 0);
	return ready && FD_ISSET(input[0], &set);
}

static int told_by_epoll(void)
{
	struct epoll_event event = {0};
	int ready = epoll_wait(events, &event, 1, 0);
	CHECK(ready >= 0);
	return ready && event.events & EPOLLIN && event.data.fd == input[0];
}

int main(void)
{
	need_session();
	int told[2];
	CHECK(pipe(input) == 0 && pipe(told) == 0);
	events = epoll_create1(0);
	struct epoll_event wanted = {.events = EPOLLIN, .data.fd = input[0]};
	CHECK(events >= 0 && epoll_ctl(events, EPOLL_CTL_ADD, input[0], &wanted) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		write_all(input[1], "words", 5);
		write_all(told[1], "t", 1);
		pause();
	}
	expect_input(told[0], "t");
	int id = checkpoint();
	if (first_time(id)) {
		expect_input(input[0], "words");
		CHECK(!polled() && !selected() && !told_by_epoll());
		say("nothing more");
		back(id);
	}
	say("poll: %s", polled() ? "ready" : "not ready");
	say("select: %s", selected() ? "ready" : "not ready");
	say("epoll: %s", told_by_epoll() ? "ready" : "not ready");
	int waiting = -1;
	CHECK(ioctl(input[0], FIONREAD, &waiting) == 0);
	say("%d bytes", waiting);
	expect_input(input[0], "wo");
	CHECK(polled());
	expect_input(input[0], "rds");
	say("again: words");
	CHECK(!polled() && !selected() && !told_by_epoll());
	say("nothing more");
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	return 0;
}
