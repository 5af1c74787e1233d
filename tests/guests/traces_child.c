// A debugger in small: a child that asks to be traced, and is read, changed, stepped and followed
// through its calls. The child leaves the recording; what its tracer learns is recorded.
// covers: ptrace wait4 waitid process_vm_readv
#include "guest.h"
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static volatile long value = 11;

static void expect_stop(pid_t child, int signal)
{
	int status;
	CHECK(waitpid(child, &status, __WALL) == child);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == signal);
}

static void traced(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(99);
	raise(SIGSTOP);
	long seen = value;
	getppid();
	raise(SIGUSR1);
	_exit(seen == 42 ? 7 : 8);
}

static void read_it(pid_t child)
{
	long copied = 0;
	struct iovec here = {&copied, sizeof copied}, there = {(void *)&value, sizeof value};
	CHECK(process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof copied);
	errno = 0;
	long peeked = ptrace(PTRACE_PEEKDATA, child, &value, NULL);
	CHECK(errno == 0 && peeked == copied);
	struct user_regs_struct registers, again;
	struct iovec set = {&again, sizeof again};
	CHECK(ptrace(PTRACE_GETREGS, child, NULL, &registers) == 0);
	CHECK(ptrace(PTRACE_GETREGSET, child, (void *)1, &set) == 0 && set.iov_len == sizeof again);
	CHECK(registers.rip == again.rip && registers.rsp == again.rsp);
	// Of a vector that is too long the kernel says how much it took.
	struct user_regs_struct longer[2] = {again, again};
	set = (struct iovec){longer, sizeof longer[0] + 8};
	CHECK(ptrace(PTRACE_SETREGSET, child, (void *)1, &set) == 0);
	CHECK(set.iov_len == sizeof longer[0]);
	nondet("at %llx, the stack at %llx", registers.rip, registers.rsp);
	siginfo_t info;
	CHECK(ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0);
	nondet("value %ld, stopped by %d", peeked, info.si_signo);
}

int main(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		traced();
	int status;
	CHECK(waitpid(child, &status, WUNTRACED | __WALL) == child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
		nondet("refused");
		say("traced");
		return 0;
	}
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	read_it(child);
	CHECK(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
	CHECK(ptrace(PTRACE_POKEDATA, child, &value, 42L) == 0);
	for (int i = 0; i < 20; i++) {
		CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
		expect_stop(child, SIGTRAP);
	}
	int stops = 0;
	for (;;) {
		CHECK(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0);
		CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGUSR1)
			break;
		stops += WSTOPSIG(status) == (SIGTRAP | 0x80);
	}
	CHECK(stops >= 2);
	nondet("%d stops at calls", stops);
	read_it(child);
	// Without the signal.
	CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
	siginfo_t end;
	CHECK(waitid(P_PID, child, &end, WEXITED) == 0);
	CHECK(end.si_status == 7);
	say("traced");
	return 0;
}
