// epoll in all its modes.
// covers: epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
#include "guest.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

static void on_usr1(int number)
{
	(void)number;
}

int main(void)
{
	struct epoll_event event, events[8];
	int p[3][2];
	int fd = epoll_create1(EPOLL_CLOEXEC), old = epoll_create(1);
	CHECK(fd >= 0 && old >= 0);
	CHECK_ERR(epoll_create(0), EINVAL);
	for (int i = 0; i < 3; i++) {
		CHECK(pipe2(p[i], O_NONBLOCK) == 0);
		event = (struct epoll_event){EPOLLIN | (i == 1 ? EPOLLET : 0) |
						     (i == 2 ? EPOLLONESHOT : 0),
					     {.u64 = 1000 + i}};
		CHECK(epoll_ctl(fd, EPOLL_CTL_ADD, p[i][0], &event) == 0);
	}
	CHECK_ERR(epoll_ctl(fd, EPOLL_CTL_ADD, p[0][0], &event), EEXIST);
	CHECK_ERR(epoll_ctl(fd, EPOLL_CTL_ADD, open("f", O_RDWR | O_CREAT, 0600), &event), EPERM);
	CHECK(epoll_wait(fd, events, 8, 0) == 0);
	CHECK(epoll_wait(fd, events, 8, 10) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(write(p[i][1], "x", 1) == 1);
	for (int round = 0; round < 3; round++) {
		memset(events, 0x11, sizeof events);
		int count = epoll_wait(fd, events, 8, 100);
		unsigned long sum = 0;
		for (int i = 0; i < count; i++)
			sum = sum * 10 + events[i].data.u64 - 1000 + events[i].events;
		say("round %d: %d ready, %lu, the rest untouched %d", round, count, sum,
		    events[count].events == 0x11111111);
	}
	event = (struct epoll_event){EPOLLIN, {.u64 = 7}};
	CHECK(epoll_ctl(fd, EPOLL_CTL_MOD, p[2][0], &event) == 0);
	CHECK(epoll_ctl(fd, EPOLL_CTL_DEL, p[0][0], NULL) == 0);
	int count = epoll_wait(fd, events, 8, -1);
	say("after MOD and DEL: %d, data %lu", count, (unsigned long)events[0].data.u64);
	CHECK_ERR(epoll_wait(fd, events, 0, 0), EINVAL);
	CHECK_ERR(epoll_wait(0, events, 1, 0), EINVAL);

	// Nested, woken by a child, interrupted by a signal that only the call lets in.
	event = (struct epoll_event){EPOLLIN, {.u64 = 50}};
	CHECK(epoll_ctl(old, EPOLL_CTL_ADD, fd, &event) == 0);
	CHECK(epoll_wait(old, events, 8, -1) == 1);
	int wake = eventfd(0, 0);
	int third = epoll_create1(0);
	CHECK(epoll_ctl(third, EPOLL_CTL_ADD, wake, &event) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(write(wake, &(uint64_t){1}, 8) == 8);
		_exit(0);
	}
	CHECK(epoll_wait(third, events, 8, -1) == 1);
	reap("waker", child);
	uint64_t value;
	CHECK(read(wake, &value, 8) == 8);
	signal(SIGUSR1, on_usr1);
	sigset_t set, none;
	sigemptyset(&none);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	raise(SIGUSR1);
	CHECK_ERR(epoll_pwait(third, events, 8, 5000, &none), EINTR);
	struct timespec limit = {0, 1000000};
	outcome("epoll_pwait2", syscall(441, third, events, 8, &limit, NULL, 8));
	return 0;
}
