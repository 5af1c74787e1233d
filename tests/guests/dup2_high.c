// Descriptors put over high numbers, where a tool might keep its own.
// covers: dup2 dup3 fcntl
#include "guest.h"
#include <sys/resource.h>

int main(void)
{
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	nondet("limit %ld", (long)limit.rlim_cur);
	write_file("f", "found");
	int fd = open("f", O_RDONLY), placed = 0;
	for (int back = 1; back <= 200; back++) {
		int target = (int)limit.rlim_cur - back;
		CHECK(dup2(fd, target) == target);
		placed++;
	}
	for (int target = 90; target < 130; target++) {
		CHECK(dup3(fd, target, O_CLOEXEC) == target);
		placed++;
	}
	for (int target = 990; target < 1023; target++) {
		CHECK(dup2(fd, target) == target);
		placed++;
	}
	char text[8] = "";
	CHECK(pread((int)limit.rlim_cur - 1, text, 5, 0) == 5);
	say("placed %d, %s", placed, text);
	nondet("clock goes on: %lld", (long long)now_ns());
	pid_t child = fork();
	if (child == 0) {
		CHECK(pread((int)limit.rlim_cur - 200, text, 5, 0) == 5);
		execl("/bin/echo", "echo", "exec goes on", NULL);
		_exit(1);
	}
	reap("child", child);
	CHECK_ERR(dup2(fd, (int)limit.rlim_cur), EBADF);
	return 0;
}
