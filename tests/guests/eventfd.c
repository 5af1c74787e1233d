// Counters with descriptors.
// covers: eventfd eventfd2
#include "guest.h"
#include <sys/eventfd.h>

int main(void)
{
	uint64_t value = 3;
	int fd = syscall(SYS_eventfd, 5);
	CHECK(fd >= 0);
	CHECK(write(fd, &value, 8) == 8);
	CHECK(read(fd, &value, 8) == 8);
	say("counter %llu", (unsigned long long)value);
	int semaphore = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	for (int i = 0; i < 3; i++)
		CHECK(read(semaphore, &value, 8) == 8 && value == 1);
	CHECK_ERR(read(semaphore, &value, 8), EAGAIN);
	value = UINT64_MAX - 1;
	CHECK(write(semaphore, &value, 8) == 8);
	CHECK_ERR(write(semaphore, &value, 8), EAGAIN);
	CHECK_ERR(write(semaphore, &value, 4), EINVAL);
	pid_t child = fork();
	if (child == 0) {
		value = 1234;
		CHECK(write(fd, &value, 8) == 8);
		_exit(0);
	}
	CHECK(read(fd, &value, 8) == 8);
	say("from the child %llu", (unsigned long long)value);
	reap("child", child);
	return 0;
}
