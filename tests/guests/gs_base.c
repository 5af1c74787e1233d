// The gs base belongs to the program: set, read back, used across calls and signals.
// covers: arch_prctl
#include "guest.h"
#include <asm/prctl.h>

static long block[4] = {1111, 2222, 3333, 4444};
static volatile long seen;

static long read_gs(void)
{
	long value;
	__asm__ volatile("movq %%gs:8, %0" : "=r"(value));
	return value;
}

static void handler(int number)
{
	(void)number;
	seen = read_gs();
}

int main(void)
{
	unsigned long base = 1;
	CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0);
	say("initial gs base %lx", base);
	// A recorder may need the gs base for itself, and refuse.
	if (nondet_outcome("ARCH_SET_GS", syscall(SYS_arch_prctl, ARCH_SET_GS, block)) == -1)
		return 0;
	CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == (uintptr_t)block);
	for (int i = 0; i < 1000; i++) {
		CHECK(read_gs() == 2222);
		CHECK(getppid() >= 0);
	}
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	CHECK(seen == 2222);
	pid_t child = fork();
	if (child == 0)
		_exit(read_gs() == 2222 ? 6 : 7);
	int status;
	CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);
	return 0;
}
