// The bare clone3 call: a thread, a fork with a pidfd, a process that shares memory, a clock of
// its own.
// covers: clone3 waitid pidfd_send_signal
#include "threads.h"
#include <linux/sched.h>
#include <sys/mman.h>

#define STACK_BYTES 65536

struct worker {
	uint64_t result;
	int parent_tid, child_tid;
	long pid, tid;
};

static long bare_call(long number, long a, long b)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return result;
}

// Runs with the creator's thread-local storage: it must not touch errno, nor printf.
static void body(struct worker *worker)
{
	worker->tid = bare_call(SYS_gettid, 0, 0);
	worker->pid = bare_call(SYS_getpid, 0, 0);
	worker->result = compute(9, 50000);
	bare_call(SYS_exit, 6, 0);
}

// Like the call; in the new thread, on its own stack, it calls `run(argument)`.
long clone3_to(struct clone_args *args, size_t length, void (*run)(struct worker *), struct worker *argument);
__asm__("clone3_to:\n"
	"	mov %rdx, %r8\n"
	"	mov %rcx, %r9\n"
	"	mov $435, %eax\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jnz 1f\n"
	"	xor %ebp, %ebp\n"
	"	mov %r9, %rdi\n"
	"	call *%r8\n"
	"	ud2\n"
	"1:	ret\n");

static uintptr_t new_stack(void)
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	CHECK(stack != MAP_FAILED);
	return (uintptr_t)stack;
}

static void as_thread(struct worker *worker)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			 CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
		.parent_tid = (uintptr_t)&worker->parent_tid,
		.child_tid = (uintptr_t)&worker->child_tid,
		.stack = new_stack(),
		.stack_size = STACK_BYTES,
	};
	int tid;
	worker->child_tid = -1;
	CHECK(clone3_to(&args, sizeof args, body, worker) > 0);
	while ((tid = __atomic_load_n(&worker->child_tid, __ATOMIC_ACQUIRE)) != 0)
		syscall(SYS_futex, &worker->child_tid, FUTEX_WAIT, tid, NULL, NULL, 0);
	say("thread: %llx, same process %d, own tid %d", (unsigned long long)worker->result,
	    worker->pid == getpid(), worker->tid == worker->parent_tid && worker->tid != getpid());
}

static void as_process(struct worker *worker)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_PARENT_SETTID,
		.parent_tid = (uintptr_t)&worker->parent_tid,
		.exit_signal = SIGCHLD,
		.stack = new_stack(),
		.stack_size = STACK_BYTES,
	};
	long child = clone3_to(&args, sizeof args, body, worker);
	CHECK(child > 0);
	reap("process in the same memory", child);
	say("process: %llx, own pid %d, leads itself %d", (unsigned long long)worker->result,
	    worker->pid == child, worker->tid == child);
}

static void as_fork(struct worker *worker)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD | CLONE_PARENT_SETTID,
		.pidfd = (uintptr_t)&pidfd,
		.parent_tid = (uintptr_t)&worker->parent_tid,
		.exit_signal = SIGCHLD,
	};
	worker->result = 1;
	long child = syscall(SYS_clone3, &args, sizeof args);
	if (child == 0) {
		worker->result = 2;
		for (;;)
			pause();
	}
	CHECK(child > 0 && pidfd >= 0);
	siginfo_t info;
	CHECK(syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) == 0);
	CHECK(waitid(P_PIDFD, pidfd, &info, WEXITED) == 0);
	say("fork: code %d status %d, the child %d, memory of its own %d", info.si_code, info.si_status,
	    info.si_pid == child, worker->result == 1);
	CHECK(close(pidfd) == 0);
}

// Who may, chooses the child's id.
static void with_id(void)
{
	pid_t wanted = getpid() > 20000 ? getpid() - 7001 : getpid() + 7001;
	struct clone_args args = {
		.set_tid = (uintptr_t)&wanted,
		.set_tid_size = 1,
		.exit_signal = SIGCHLD,
	};
	long child = syscall(SYS_clone3, &args, sizeof args);
	if (child == 0)
		_exit(getpid() == wanted ? 3 : 4);
	if (child < 0) {
		say("an id of its own: %s", errno_name(errno));
		return;
	}
	CHECK(child == wanted);
	reap("an id of its own", child);
}

// The bit for it is where clone has the signal, so that it is clone3's alone.
static void with_own_clock(struct worker *worker)
{
	struct clone_args args = {.flags = CLONE_NEWTIME, .exit_signal = SIGCHLD};
	char name[2][64] = {{0}};
	CHECK(readlink("/proc/self/ns/time", name[0], 63) > 0);
	long child = syscall(SYS_clone3, &args, sizeof args);
	if (child == 0) {
		struct timespec now;
		CHECK(readlink("/proc/self/ns/time", name[1], 63) > 0);
		CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
		_exit(strcmp(name[0], name[1]) != 0 ? 3 : 4);
	}
	if (outcome("own clock", child < 0 ? -1 : 0) == 0)
		reap("process with a clock of its own", child);
	args = (struct clone_args){
		.flags = CLONE_NEWTIME | CLONE_VM | CLONE_VFORK,
		.exit_signal = SIGCHLD,
		.stack = new_stack(),
		.stack_size = STACK_BYTES,
	};
	child = clone3_to(&args, sizeof args, body, worker);
	if (child > 0)
		reap("in the same memory", child);
	say("made %d", child > 0);
}

// A longer structure is one of a newer kernel: what is not known there has to be 0.
static void longer_than_known(void)
{
	const size_t page = 4096;
	unsigned char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED && munmap(pages + page, page) == 0);
	struct clone_args *args = (struct clone_args *)pages;
	args->exit_signal = SIGCHLD;
	long child = syscall(SYS_clone3, args, page);
	if (child == 0)
		_exit(7);
	CHECK(child > 0);
	reap("a page of arguments", child);
	CHECK_ERR(syscall(SYS_clone3, args, page + 1), E2BIG);
	args = (struct clone_args *)(pages + page - sizeof *args);
	args->exit_signal = SIGCHLD;
	CHECK_ERR(syscall(SYS_clone3, args, sizeof *args + 1), EFAULT);
	pages[sizeof *args] = 1;
	CHECK_ERR(syscall(SYS_clone3, pages, sizeof *args + 8), E2BIG);
}

int main(void)
{
	static struct worker worker;
	struct clone_args bad = {.flags = CLONE_THREAD, .exit_signal = SIGCHLD};
	for (int i = 0; i < 5; i++) {
		as_thread(&worker);
		as_process(&worker);
		as_fork(&worker);
		with_id();
	}
	with_own_clock(&worker);
	longer_than_known();
	CHECK_ERR(syscall(SYS_clone3, &bad, sizeof bad), EINVAL);
	bad = (struct clone_args){.stack_size = 4096, .exit_signal = SIGCHLD};
	CHECK_ERR(syscall(SYS_clone3, &bad, sizeof bad), EINVAL);
	return 0;
}
