// What clone(2) and clone3(2) write for the parent, the id and a descriptor of the child, is not in
// the child's copy of the memory.
#include "guest.h"
#include <linux/sched.h>

static volatile int pidfd, parent_tid;

static void tell_child(const char *what)
{
	say("child of %s: descriptor %d, id %d", what, pidfd, parent_tid);
	_exit(0);
}

static void tell_parent(const char *what, pid_t child)
{
	CHECK(child > 0);
	CHECK(reap("child", child) == 0);
	say("parent of %s: descriptor %s, id %s", what, pidfd < 0 ? "none" : "given",
	    parent_tid == child ? "given" : "none");
	if (pidfd >= 0)
		close(pidfd);
	pidfd = parent_tid = -1;
}

int main(void)
{
	pidfd = parent_tid = -1;
	pid_t child = syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, NULL, &parent_tid, NULL, 0);
	if (child == 0)
		tell_child("clone");
	tell_parent("clone", child);

	child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, 0);
	if (child == 0)
		tell_child("clone");
	tell_parent("clone", child);

	struct clone_args args = {
	    .flags = CLONE_PIDFD | CLONE_PARENT_SETTID,
	    .pidfd = (uintptr_t)&pidfd,
	    .parent_tid = (uintptr_t)&parent_tid,
	    .exit_signal = SIGCHLD,
	};
	child = syscall(SYS_clone3, &args, sizeof args);
	if (child == 0)
		tell_child("clone3");
	tell_parent("clone3", child);
	return 0;
}
