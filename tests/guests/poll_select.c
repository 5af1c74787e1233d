// poll, ppoll, select, pselect6.
// covers: poll ppoll select pselect6
#include "guest.h"
#include <poll.h>
#include <sys/select.h>

static void on_usr1(int number)
{
	(void)number;
}

int main(void)
{
	int a[2], b[2];
	CHECK(pipe(a) == 0 && pipe(b) == 0);
	struct pollfd p[4] = {{a[0], POLLIN, 9}, {a[1], POLLOUT, 9}, {-1, POLLIN, 9}, {999, POLLIN, 9}};
	CHECK(poll(p, 4, 0) == 2);
	say("poll: %x %x %x %x", p[0].revents, p[1].revents, p[2].revents, p[3].revents);
	CHECK(write(a[1], "x", 1) == 1);
	close(b[1]);
	p[2] = (struct pollfd){b[0], POLLIN, 0};
	struct timespec limit = {0, 5000000};
	CHECK(ppoll(p, 3, &limit, NULL) == 3);
	say("ppoll: %x %x %x", p[0].revents, p[1].revents, p[2].revents);
	CHECK(syscall(SYS_ppoll, p, 3, &limit, NULL, 8) == 3);
	nondet("limit left %ld", limit.tv_nsec);
	fd_set in, out;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(a[0], &in);
	FD_SET(b[0], &in);
	FD_SET(a[1], &out);
	struct timeval tv = {2, 0};
	CHECK(select(20, &in, &out, NULL, &tv) == 3);
	say("select: %d %d %d", FD_ISSET(a[0], &in), FD_ISSET(b[0], &in), FD_ISSET(a[1], &out));
	nondet("tv left %ld.%06ld", tv.tv_sec, tv.tv_usec);
	char byte;
	CHECK(read(a[0], &byte, 1) == 1);
	FD_ZERO(&in);
	FD_SET(a[0], &in);
	tv = (struct timeval){0, 10000};
	CHECK(syscall(SYS_select, a[0] + 1, &in, NULL, NULL, &tv) == 0);
	say("timed out: %d left %ld", FD_ISSET(a[0], &in), tv.tv_usec);
	FD_SET(a[0], &in);
	limit = (struct timespec){0, 1000000};
	CHECK(pselect(a[0] + 1, &in, NULL, NULL, &limit, NULL) == 0);
	signal(SIGUSR1, on_usr1);
	sigset_t set, none;
	sigemptyset(&none);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	raise(SIGUSR1);
	CHECK_ERR(ppoll(NULL, 0, NULL, &none), EINTR);
	raise(SIGUSR1);
	CHECK_ERR(pselect(0, NULL, NULL, NULL, NULL, &none), EINTR);
	CHECK_ERR(poll(BAD, 1, 0), EFAULT);
	FD_ZERO(&in);
	FD_SET(60, &in); // Closed, and below the size that the kernel cuts to.
	CHECK_ERR(select(61, &in, NULL, NULL, NULL), EBADF);
	// A child's byte ends an endless poll.
	pid_t child = fork();
	if (child == 0) {
		CHECK(write(a[1], "y", 1) == 1);
		_exit(0);
	}
	CHECK(poll(p, 1, -1) == 1);
	reap("writer", child);
	return 0;
}
