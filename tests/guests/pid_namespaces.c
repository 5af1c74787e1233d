// Namespaces of process ids: as the superuser for real, as a user within a namespace of users
// if those are permitted. Processes in one, their children, threads and other programs.
// covers: clone unshare setns
// not-by: write-protection
#include "threads.h"
#include <sched.h>
#include <sys/mman.h>

// A process of the program's own, with these flags more than fork has; -1: it may not be.
static pid_t make(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

static void *count(void *sum)
{
	for (int i = 0; i < 1000; i++)
		__atomic_fetch_add((long *)sum, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void say_ids(const char *who)
{
	say("%s: pid %d, parent %d, thread %ld", who, getpid(), getppid(), syscall(SYS_gettid));
}

// What the first process of a namespace does.
static void first(int depth)
{
	say_ids("first");
	pid_t child = fork();
	if (child == 0) {
		say_ids("its child");
		execl("/proc/self/exe", "guest", "executed", NULL);
		_exit(98);
	}
	reap("its child", child);
	say("that was %d", child);
	pthread_t thread;
	long sum = 0;
	CHECK(pthread_create(&thread, NULL, count, &sum) == 0);
	count(&sum);
	CHECK(pthread_join(thread, NULL) == 0);
	say("sum %ld", sum);
	child = fork();
	if (child == 0) {
		pause();
		_exit(97);
	}
	CHECK(kill(child, SIGKILL) == 0);
	reap("killed", child);
	// The kernel keeps these from the first process of a namespace.
	CHECK(kill(1, SIGKILL) == 0 && raise(SIGTERM) == 0);
	say("still there");
	if (depth == 0) {
		child = make(CLONE_NEWPID);
		if (child == 0) {
			first(1);
			_exit(4);
		}
		reap("a namespace within", child);
	}
}

// A signal that is sent to the first process does not kill it, one of a fault does.
static void faults(void)
{
	pid_t child = make(CLONE_NEWPID);
	if (child == 0) {
		__asm__ volatile("int3");
		_exit(7);
	}
	reap("trapped", child);
	child = make(CLONE_NEWPID);
	if (child == 0) {
		CHECK(raise(SIGTRAP) == 0 && raise(SIGSYS) == 0);
		CHECK(getpid() == 1);
		__asm__ volatile("int3");
		_exit(7);
	}
	reap("trapped after a signal", child);
	child = make(CLONE_NEWPID);
	if (child == 0) {
		__asm__ volatile("ud2");
		_exit(8);
	}
	reap("an instruction that is none", child);
}

// One that is left alone when the first of its namespace ends is killed.
static void orphans(void)
{
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	pid_t child = make(CLONE_NEWPID);
	if (child == 0) {
		if (fork() == 0) {
			pause();
			_exit(97);
		}
		_exit(5);
	}
	close(pipes[1]);
	reap("first, with an orphan", child);
	char byte;
	say("the orphan is gone: %zd", read(pipes[0], &byte, 1));
	close(pipes[0]);
}

// Memory that processes in both share.
static void shared(void)
{
	long *sum = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sum != MAP_FAILED);
	pid_t child = make(CLONE_NEWPID);
	if (child == 0) {
		pid_t inner = fork();
		count(sum);
		if (inner == 0)
			_exit(0);
		CHECK(waitpid(inner, NULL, 0) == inner);
		_exit(0);
	}
	count(sum);
	reap("shares memory", child);
	say("sum %ld", *sum);
}

// Children of a process that stays where it is.
static void unshared(void)
{
	if (outcome("unshare", unshare(CLONE_NEWPID)) == -1)
		return;
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	// The first stays while the second is made.
	pid_t in_namespace = fork();
	if (in_namespace == 0) {
		say_ids("behind unshare");
		CHECK(write(pipes[1], "x", 1) == 1);
		pause();
		_exit(6);
	}
	char byte;
	CHECK(read(pipes[0], &byte, 1) == 1);
	pid_t second = fork();
	if (second == 0) {
		say_ids("also there");
		_exit(7);
	}
	reap("second", second);
	CHECK(kill(in_namespace, SIGKILL) == 0);
	reap("first", in_namespace);
	errno = 0;
	pid_t child = fork();
	say("the namespace has ended: %d %s", child == -1, errno_name(errno));
}

static void entered(void)
{
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	pid_t child = make(CLONE_NEWPID);
	if (child == 0) {
		char byte;
		CHECK(read(pipes[0], &byte, 1) == 1);
		_exit(0);
	}
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/ns/pid", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && outcome("setns", setns(fd, CLONE_NEWPID)) == 0) {
		pid_t other = fork();
		if (other == 0) {
			say_ids("entered");
			execl("/proc/self/exe", "guest", "executed", NULL);
			_exit(98);
		}
		reap("entered", other);
	}
	CHECK(write(pipes[1], "x", 1) == 1);
	reap("whose it is", child);
}

int main(int argc, char **argv)
{
	if (argc == 2) {
		say_ids(argv[1]);
		pid_t child = fork();
		if (child == 0) {
			say_ids("its child");
			_exit(3);
		}
		reap("child of executed", child);
		return 2;
	}
	if (getuid() != 0 && outcome("unshare CLONE_NEWUSER", unshare(CLONE_NEWUSER)) == -1)
		return 0;
	pid_t child = make(CLONE_NEWPID);
	if (child == 0) {
		first(0);
		_exit(1);
	}
	if (child == -1) {
		outcome("clone CLONE_NEWPID", -1);
		return 0;
	}
	reap("first", child);
	run_in_child("faults", faults);
	run_in_child("orphans", orphans);
	run_in_child("shared", shared);
	run_in_child("unshared", unshared);
	run_in_child("entered", entered);
	return 0;
}
