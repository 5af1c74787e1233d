// Threads made by the bare clone call, with no C library in them.
// covers: clone futex exit set_tid_address
#include "threads.h"
#include <sys/mman.h>

#define STACK_BYTES 65536
#define THREAD_FLAGS                                                                               \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |        \
	 CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)

struct worker {
	uint64_t seed, result;
	long tid, pid;
	int parent_tid, child_tid;
};

static long bare_call(long number, long a, long b)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return result;
}

// Runs with the creator's thread-local storage: it must not touch errno, nor printf.
__attribute__((used)) static void body(struct worker *worker)
{
	worker->tid = bare_call(SYS_gettid, 0, 0);
	worker->pid = bare_call(SYS_getpid, 0, 0);
	worker->result = compute(worker->seed, 50000);
	bare_call(SYS_exit, 0, 0);
}

// The new thread finds its argument and what to call on its stack.
long clone_to(unsigned long flags, void *stack_top, int *parent_tid, int *child_tid);
__asm__("clone_to:\n"
	"	mov %rcx, %r10\n"
	"	xor %r8d, %r8d\n"
	"	mov $56, %eax\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jnz 1f\n"
	"	xor %ebp, %ebp\n"
	"	pop %rdi\n"
	"	pop %rax\n"
	"	call *%rax\n"
	"	ud2\n"
	"1:	ret\n");

static long start_bare(struct worker *worker)
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	CHECK(stack != MAP_FAILED);
	void **top = (void **)(stack + STACK_BYTES - 64);
	top[0] = worker;
	top[1] = (void *)body;
	worker->child_tid = -1;
	return clone_to(THREAD_FLAGS, top, &worker->parent_tid, &worker->child_tid);
}

// The kernel clears child_tid and wakes whoever waits for it.
static void join_bare(struct worker *worker)
{
	int tid;
	while ((tid = __atomic_load_n(&worker->child_tid, __ATOMIC_ACQUIRE)) != 0)
		syscall(SYS_futex, &worker->child_tid, FUTEX_WAIT, tid, NULL, NULL, 0);
}

int main(void)
{
	static struct worker workers[6];
	for (unsigned i = 0; i < COUNT(workers); i++) {
		workers[i].seed = i;
		long tid = start_bare(&workers[i]);
		CHECK(tid > 0 && tid == workers[i].parent_tid);
	}
	for (unsigned i = 0; i < COUNT(workers); i++) {
		struct worker *worker = &workers[i];
		join_bare(worker);
		say("worker %u: %llx, process %d, tid agrees %d", i, (unsigned long long)worker->result,
		    worker->pid == getpid(), worker->tid == worker->parent_tid);
		nondet("its tid %ld", worker->tid);
	}
	say("set_tid_address gives the tid: %d", (int)syscall(SYS_set_tid_address, &workers[0].child_tid) == getpid());
	for (int i = 0; i < 50; i++) {
		CHECK(start_bare(&workers[0]) > 0);
		join_bare(&workers[0]);
	}
	say("fifty more");
	return 0;
}
