// A child that is traced by its parent leaves the recording; what it stores to a file in memory that
// both have mapped, the parent sees at each of its stops, and at a replay too.
// not-by: seccomp
// covers: ptrace memfd_create mmap wait4 fork
#include "guest.h"
#include <sys/mman.h>
#include <sys/ptrace.h>

#define ROUNDS 200

static void child(volatile int *shared)
{
	CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		shared[0] = i * 7;
		shared[1500] = i % 3 == 0;
		raise(SIGSTOP);
	}
	_exit(0);
}

int main(void)
{
	int fd = memfd_create("shared", MFD_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
	volatile int *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED);
	pid_t pid = fork();
	if (pid == 0)
		child(shared);
	long stops = 0, sum = 0, marked = 0;
	int status;
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		stops++;
		sum += shared[0];
		// Another call where the value says so: a replay that sees another value diverges.
		if (shared[1500] && kill(pid, 0) == 0)
			marked++;
		CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
	}
	say_status("the child", status);
	say("%ld stops, sum %ld, %ld marked", stops, sum, marked);
	return 0;
}
