// Thousands of descriptors open at once.
// covers: openat close dup2 poll
#include "guest.h"
#include <poll.h>
#include <sys/resource.h>

int main(void)
{
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	nondet("limit %ld %ld", (long)limit.rlim_cur, (long)limit.rlim_max);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	int wanted = limit.rlim_max < 5200 ? (int)limit.rlim_max - 100 : 5000, opened = 0;
	nondet("wanted %d", wanted);
	static int fds[5000];
	char name[32];
	for (int i = 0; i < wanted; i++) {
		snprintf(name, sizeof name, "f%d", i % 100);
		fds[i] = open(name, O_RDWR | O_CREAT, 0600);
		CHECK(fds[i] >= 0);
		opened++;
	}
	nondet("highest %d", fds[opened - 1]);
	static struct pollfd polled[5000];
	for (int i = 0; i < opened; i++)
		polled[i] = (struct pollfd){fds[i], POLLIN, 0};
	CHECK(poll(polled, opened, 0) == opened);
	CHECK(write(fds[opened - 1], "last", 4) == 4);
	pid_t child = fork();
	if (child == 0) {
		CHECK(pread(fds[opened - 1], name, 4, 0) == 4 && memcmp(name, "last", 4) == 0);
		_exit(0);
	}
	reap("child", child);
	for (int i = 0; i < opened; i++)
		CHECK(close(fds[i]) == 0);
	CHECK(open("f0", O_RDONLY) == fds[0]);
	say("all closed");
	return 0;
}
