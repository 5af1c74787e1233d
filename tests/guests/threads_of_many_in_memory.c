// Several processes in one memory (CLONE_VM) make threads at the same time, and wait for them.
// covers: clone futex exit wait4
#include "guest.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { AT_A_TIME = 6, ROUNDS = 5, STACK_BYTES = 64 * 1024, MEMBER_BYTES = 2 * STACK_BYTES };
enum { THREAD_FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
		      CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID };

struct member {
	char *stack_end, *thread_stack_end;
	volatile pid_t thread;
	int count;
};

static struct member members[AT_A_TIME];

static int counts_up(void *member)
{
	((struct member *)member)->count++;
	return 0;
}

// The memory's only thread-local storage is the first process's: the library cannot make threads.
static int makes_threads(void *argument)
{
	struct member *own = argument;
	for (int i = 0; i < 2; i++) {
		pid_t *tid = (pid_t *)&own->thread, now;
		CHECK(clone(counts_up, own->thread_stack_end, THREAD_FLAGS, own, tid, NULL, tid) > 0);
		while ((now = own->thread) != 0)
			syscall(SYS_futex, tid, FUTEX_WAIT, now, NULL, NULL, 0);
	}
	return own->count;
}

int main(void)
{
	int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *stacks = mmap(NULL, AT_A_TIME * MEMBER_BYTES, protection, flags, -1, 0);
	pid_t pids[AT_A_TIME];
	int status;
	CHECK(stacks != MAP_FAILED);
	for (int round = 1; round <= ROUNDS; round++) {
		for (int i = 0; i < AT_A_TIME; i++) {
			struct member *member = &members[i];
			member->stack_end = stacks + i * MEMBER_BYTES + STACK_BYTES;
			member->thread_stack_end = member->stack_end + STACK_BYTES;
			CHECK((pids[i] = clone(makes_threads, member->stack_end, CLONE_VM | SIGCHLD, member)) > 0);
		}
		for (int i = 0; i < AT_A_TIME; i++) {
			CHECK(waitpid(pids[i], &status, 0) == pids[i]);
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2 * round);
		}
	}
	say("%d rounds of %d processes with threads", ROUNDS, AT_A_TIME);
	return 0;
}
