// A process that shares this memory stops all threads in it, reads their registers and lets
// them go, as leak detectors do.
// not-by: write-protection
// covers: ptrace wait4 clone
#include "threads.h"
#include <elf.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#define STACK_BYTES 262144
#define THREADS 3

static int pipe_ends[2];
static atomic_int begun[THREADS], may_trace, traced, over;
static atomic_ulong rounds;
static pthread_t threads[THREADS];

static void *count_rounds(void *argument)
{
	post(argument, own_tid());
	while (!atomic_load(&over))
		atomic_fetch_add(&rounds, 1);
	return NULL;
}

static void *sleep_in_call(void *argument)
{
	char byte;
	post(argument, own_tid());
	CHECK(read(pipe_ends[0], &byte, 1) == 1);
	return NULL;
}

static void until_rounds_change(void)
{
	unsigned long before = atomic_load(&rounds);
	while (atomic_load(&rounds) == before)
		sched_yield();
}

static long trace(long request, pid_t tid, long address, void *data)
{
	return syscall(SYS_ptrace, request, tid, address, data) == 0 ? 0 : errno;
}

static void until_stopped(pid_t tid)
{
	int status = 0;
	CHECK(syscall(SYS_wait4, tid, &status, __WALL, NULL) == tid);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
}

static void check_registers(int index, pid_t tid)
{
	struct user_regs_struct set, all;
	struct iovec vector = {&set, sizeof set};
	CHECK(trace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector) == 0);
	CHECK(vector.iov_len == sizeof set);
	CHECK(trace(PTRACE_GETREGS, tid, 0, &all) == 0);
	CHECK(memcmp(&set, &all, sizeof set) == 0);
	CHECK(set.fs_base == (unsigned long)threads[index]);
	CHECK(set.rip != 0 && set.cs == 0x33);
	// Its stack pointer is on its stack: memory that can be looked at.
	long word = 0;
	CHECK(trace(PTRACE_PEEKDATA, tid, (long)(set.rsp & -8UL), &word) == 0);
	CHECK(word == *(long *)(set.rsp & -8UL));
}

static int stop_all(void *argument)
{
	(void)argument;
	await(&may_trace);
	for (int i = 0; i < THREADS; i++)
		CHECK(trace(PTRACE_ATTACH, begun[i], 0, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		until_stopped(begun[i]);
	CHECK(trace(PTRACE_ATTACH, begun[0], 0, NULL) == EPERM);
	unsigned long before = atomic_load(&rounds);
	CHECK(nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL) == 0);
	for (int i = 0; i < 100; i++)
		sched_yield();
	CHECK(atomic_load(&rounds) == before);
	for (int i = 0; i < THREADS; i++)
		check_registers(i, begun[i]);
	for (int i = 0; i < THREADS; i++)
		CHECK(trace(PTRACE_DETACH, begun[i], 0, NULL) == 0);
	CHECK(trace(PTRACE_DETACH, begun[0], 0, NULL) == ESRCH);
	until_rounds_change();
	atomic_store(&traced, 1);
	return 3;
}

// It goes without letting go of what it stopped.
static int stop_one_and_go(void *argument)
{
	await(&may_trace);
	CHECK(trace(PTRACE_ATTACH, begun[1], 0, NULL) == 0);
	until_stopped(begun[1]);
	atomic_store(&traced, 1);
	if (argument)
		kill((pid_t)syscall(SYS_getpid), SIGKILL);
	return 4;
}

static int go_on_traced(void *argument)
{
	(void)argument;
	await(&may_trace);
	CHECK(trace(PTRACE_ATTACH, begun[1], 0, NULL) == 0);
	until_stopped(begun[1]);
	CHECK(trace(PTRACE_CONT, begun[1], 0, NULL) == 0);
	until_rounds_change();
	atomic_store(&traced, 1);
	return 5;
}

static void trace_by(int (*body)(void *), void *argument, const char *what)
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	CHECK(stack != MAP_FAILED);
	atomic_store(&may_trace, 0);
	atomic_store(&traced, 0);
	pid_t tracer = clone(body, stack + STACK_BYTES, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED,
			     argument);
	CHECK(tracer > 0);
	prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
	post(&may_trace, 1);
	// The tracer uses this thread's errno: no call that could fail.
	while (!atomic_load(&traced))
		sched_yield();
	int status;
	CHECK(waitpid(tracer, &status, __WALL) == tracer);
	say("%s: %x", what, status);
	until_rounds_change();
	CHECK(munmap(stack, STACK_BYTES) == 0);
}

int main(void)
{
	CHECK(pipe(pipe_ends) == 0);
	threads[0] = pthread_self();
	post(&begun[0], own_tid());
	threads[1] = start(count_rounds, &begun[1]);
	threads[2] = start(sleep_in_call, &begun[2]);
	until_asleep(&begun[2]);
	until_rounds_change();
	trace_by(stop_all, NULL, "stopped all");
	trace_by(stop_one_and_go, NULL, "went");
	trace_by(stop_one_and_go, &over, "was killed");
	trace_by(go_on_traced, NULL, "let one go on");
	atomic_store(&over, 1);
	CHECK(write(pipe_ends[1], "x", 1) == 1);
	join(threads[1]);
	join(threads[2]);
	say("over");
	return 0;
}
