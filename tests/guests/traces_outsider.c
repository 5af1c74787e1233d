// A program attaches to a process that is not recorded: one that it once traced, and let go.
// covers: ptrace wait4 fork kill
// not-by: seccomp
#include "guest.h"
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

static volatile long word = 4711;

static int stopped(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, __WALL) == pid);
	CHECK(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

int main(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	CHECK(stopped(child) == SIGSTOP);
	CHECK(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0);
	CHECK(ptrace(PTRACE_ATTACH, child, NULL, NULL) == 0);
	say("attached: %d", stopped(child));
	errno = 0;
	say("reads %ld", ptrace(PTRACE_PEEKDATA, child, &word, NULL));
	CHECK(ptrace(PTRACE_POKEDATA, child, &word, 42) == 0);
	CHECK(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0);
	CHECK(ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0);
	CHECK(ptrace(PTRACE_INTERRUPT, child, NULL, NULL) == 0);
	say("seized: %d", stopped(child));
	struct user_regs_struct registers = { 0 };
	CHECK(ptrace(PTRACE_GETREGS, child, NULL, &registers) == 0);
	unsigned long base = 0;
	CHECK(ptrace(30, child, &base, 0x1003) == 0); // PTRACE_ARCH_PRCTL, ARCH_GET_FS
	CHECK(base == registers.fs_base && base != 0);
	say("reads %ld", ptrace(PTRACE_PEEKDATA, child, &word, NULL));
	CHECK_ERR(ptrace(PTRACE_SEIZE, 1 << 22, NULL, NULL), ESRCH);
	CHECK(kill(child, SIGKILL) == 0);
	int status;
	CHECK(waitpid(child, &status, __WALL) == child && WTERMSIG(status) == SIGKILL);
	nondet("%lx", base);
	return 0;
}
