// A process in another's memory ends in every way: the word that CLONE_CHILD_CLEARTID names is
// cleared, its robust futex let go, and who waits for them in every way goes on.
// covers: clone set_robust_list futex execve kill exit
#include "threads.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum end { EXITS, KILLS_ITSELF, IS_KILLED, FAULTS, EXECUTES, IS_TERMINATED, ENDS };

static char stack[65536] __attribute__((aligned(16)));
static volatile int its_tid, is_up;
static volatile unsigned owned;
static enum end end_of_child;
static volatile int *volatile nowhere = (volatile int *)8;

static struct {
	struct robust_list_head head;
	struct robust_list entry;
} list;

static int child(void *argument)
{
	(void)argument;
	list.head.list.next = &list.entry;
	list.entry.next = &list.head.list;
	list.head.futex_offset = (long)((char *)&owned - (char *)&list.entry);
	list.head.list_op_pending = NULL;
	syscall(SYS_set_robust_list, &list.head, sizeof list.head);
	owned = (unsigned)syscall(SYS_getpid);
	is_up = 1;
	switch (end_of_child) {
	case EXITS:
		syscall(SYS_exit, 3);
		break;
	case KILLS_ITSELF:
		syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
		break;
	case FAULTS:
		*nowhere = 1;
		break;
	case EXECUTES:
		execl("/bin/true", "true", NULL);
		break;
	default:
		for (;;)
			owned = owned;
	}
	return 9;
}

int main(void)
{
	struct rlimit none = { 0 };
	CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	CHECK(signal(SIGTERM, SIG_DFL) != SIG_ERR);
	for (enum end end = 0; end < ENDS; end++) {
		for (int wait = 0; wait < 3; wait++) {
			end_of_child = end;
			is_up = 0;
			int flags = CLONE_VM | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID | SIGCHLD;
			pid_t pid =
			    clone(child, stack + sizeof stack, flags, NULL, &its_tid, NULL, &its_tid);
			CHECK(pid > 0);
			while (!is_up)
				sched_yield();
			if (end == IS_KILLED || end == IS_TERMINATED)
				CHECK(kill(pid, end == IS_KILLED ? SIGKILL : SIGTERM) == 0);
			int now;
			while ((now = its_tid) != 0) {
				if (wait == 0)
					syscall(SYS_futex, &its_tid, FUTEX_WAIT, now, NULL, NULL, 0);
				else if (wait == 1)
					sched_yield();
			}
			int status;
			CHECK(waitpid(pid, &status, 0) == pid);
			say("%d %d: %x, futex %x", end, wait, status, owned);
		}
	}
	return 0;
}
