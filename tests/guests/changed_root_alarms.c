// Alarms in a computation whose process has a root without /proc: its own chroot, or that
// of a child that shares its root, as sandboxes do it, also to what is left of its own directory
// in /proc. All descriptors are closed before; one executes itself between.
// covers: chroot clone close_range
// needs: root
#include "guest.h"
#include <sched.h>
#include <sys/time.h>

#define ALARMS 10

static volatile int alarms;
static volatile unsigned long memory[8192];

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void compute(const char *where)
{
	CHECK(access("/proc", F_OK) == -1);
	CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
	struct itimerval interval = { .it_interval = { 0, 3000 }, .it_value = { 0, 3000 } };
	CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
	unsigned long x = 1;
	while (alarms < ALARMS) {
		x = x * 6364136223846793005 + 1;
		memory[x >> 51] += x;
	}
	say("%d alarms %s", ALARMS, where);
}

static int change_root(void *root)
{
	return chroot(root) != 0;
}

static int change_root_when_told(void *pipes)
{
	const int *ends = pipes;
	char word;
	CHECK(read(ends[0], &word, 1) == 1);
	return chroot("/proc/self/fdinfo") != 0;
}

// The child changes the root, and is gone.
static void below(const char *root)
{
	static char stack[65536];
	pid_t helper = clone(change_root, stack + sizeof stack, CLONE_FS | SIGCHLD, (void *)(uintptr_t)root);
	int status;
	CHECK(helper > 0 && waitpid(helper, &status, 0) == helper && status == 0);
}

// The same, at the word of what this process has executed meanwhile.
static void execute_between(void)
{
	static char stack[65536];
	int ends[2];
	CHECK(pipe(ends) == 0);
	pid_t helper = clone(change_root_when_told, stack + sizeof stack, CLONE_FS | SIGCHLD, ends);
	CHECK(helper > 0);
	char end[16], child[16];
	snprintf(end, sizeof end, "%d", ends[1]);
	snprintf(child, sizeof child, "%d", (int)helper);
	execl("/proc/self/exe", "changed_root_alarms", end, child, (char *)NULL);
	CHECK(!"executed");
}

static void tell(int end, pid_t helper)
{
	int status;
	CHECK(write(end, "c", 1) == 1);
	CHECK(waitpid(helper, &status, 0) == helper && status == 0);
	compute("below the root of a child, executed");
}

int main(int count, char **words)
{
	if (count == 3) {
		tell(atoi(words[1]), atoi(words[2]));
		return 0;
	}
	CHECK(mkdir("root", 0700) == 0);
	pid_t own = fork();
	if (own == 0) {
		CHECK(chroot("root") == 0);
		compute("below a root of its own");
		_exit(0);
	}
	reap("own", own);
	pid_t sandboxed = fork();
	if (sandboxed == 0) {
		below("root");
		compute("below the root of a child");
		_exit(0);
	}
	reap("sandboxed", sandboxed);
	pid_t left = fork();
	if (left == 0) {
		below("/proc/self/fdinfo");
		compute("below what is left of a child");
		_exit(0);
	}
	reap("left", left);
	pid_t executed = fork();
	if (executed == 0)
		execute_between();
	reap("executed", executed);
	return 0;
}
