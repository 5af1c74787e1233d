// clone and clone3, raw, with their out-parameters; also shared tables without shared memory.
// covers: clone clone3 set_tid_address gettid
#include "guest.h"
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>

static int parent_tid, child_tid;

static long raw_clone(unsigned long flags)
{
	parent_tid = child_tid = -5;
	return syscall(SYS_clone, flags, NULL, &parent_tid, &child_tid, 0);
}

static int on_own_stack(void *argument)
{
	return *(int *)argument + 1;
}

int main(void)
{
	long child = raw_clone(SIGCHLD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID);
	if (child == 0)
		_exit(child_tid == getpid() && child_tid == (int)syscall(SYS_gettid) ? 1 : 2);
	say("parent's tid set %d, child's not %d", parent_tid == child, child_tid == -5);
	reap("settid", child);

	child = raw_clone(SIGCHLD | CLONE_CHILD_CLEARTID);
	if (child == 0)
		_exit(syscall(SYS_set_tid_address, &child_tid) == getpid() ? 3 : 4);
	reap("cleartid", child);

	// The child shares descriptors and directory; its memory is its own.
	CHECK(mkdir("inner", 0700) == 0);
	child = raw_clone(SIGCHLD | CLONE_FILES | CLONE_FS);
	if (child == 0) {
		CHECK(dup2(1, 77) == 77);
		CHECK(chdir("inner") == 0);
		umask(0111);
		_exit(5);
	}
	reap("shared tables", child);
	say("descriptor 77 is there: %d", fcntl(77, F_GETFD));
	say("umask %o", umask(022));
	CHECK(chdir("..") == 0 && access("inner", F_OK) == 0);

	// Without an exit signal the child is waited for with __WCLONE.
	child = raw_clone(0);
	if (child == 0)
		_exit(6);
	int status;
	CHECK(waitpid(child, &status, __WCLONE) == child);
	say_status("no signal", status);

	char *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int seven = 7;
	child = clone(on_own_stack, stack + (1 << 16), SIGCHLD, &seven);
	reap("own stack", child);
	child = clone(on_own_stack, stack + (1 << 16), SIGCHLD | CLONE_VM | CLONE_VFORK, &seven);
	reap("vfork on own stack", child);

	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CLEAR_SIGHAND,
		.pidfd = (uintptr_t)&pidfd,
		.parent_tid = (uintptr_t)&parent_tid,
		.exit_signal = SIGCHLD,
	};
	parent_tid = 0;
	child = syscall(SYS_clone3, &args, sizeof args);
	if (child == 0)
		_exit(9);
	if (child < 0) {
		nondet("clone3: %s", errno_name(errno));
	} else {
		nondet("clone3 gave %d", pidfd >= 0 && parent_tid == child);
		CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
	}
	CHECK_ERR(raw_clone(CLONE_THREAD | SIGCHLD), EINVAL);
	CHECK_ERR(syscall(SYS_clone3, &args, 3), EINVAL);
	return 0;
}
