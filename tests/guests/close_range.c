// Programs that close every descriptor they do not know.
// covers: close_range close
#include "guest.h"

#define CLOSE_RANGE 436

static void still_works(const char *when)
{
	int fd = open("/dev/null", O_RDWR);
	CHECK(fd == 3);
	CHECK(getppid() > 0);
	nondet("%s: %lld", when, (long long)now_ns());
	pid_t child = fork();
	if (child == 0)
		_exit(1);
	reap(when, child);
	CHECK(close(fd) == 0);
}

int main(void)
{
	int p[2];
	CHECK(syscall(CLOSE_RANGE, 3, ~0u, 0) == 0);
	still_works("after close_range");
	for (int fd = 3; fd < 70000; fd++)
		close(fd);
	still_works("after a loop of close");
	CHECK(pipe(p) == 0);
	CHECK(syscall(CLOSE_RANGE, 3, ~0u, 4) == 0); // CLOSE_RANGE_CLOEXEC
	CHECK(fcntl(p[0], F_GETFD) == FD_CLOEXEC);
	CHECK(syscall(CLOSE_RANGE, p[1], p[1], 2) == 0); // CLOSE_RANGE_UNSHARE
	CHECK_ERR(write(p[1], "x", 1), EBADF);
	CHECK_ERR(syscall(CLOSE_RANGE, 10, 5, 0), EINVAL);
	close(p[0]);
	closefrom(3);
	still_works("after closefrom");
	return 0;
}
