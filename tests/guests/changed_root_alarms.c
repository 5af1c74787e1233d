// Alarms in a computation whose process has a root without /proc: its own chroot, or that
// of a child that shares its root, as sandboxes do it. All descriptors are closed before.
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

static int change_root(void *unused)
{
	(void)unused;
	return chroot("root") != 0;
}

int main(void)
{
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
		static char stack[65536];
		pid_t helper = clone(change_root, stack + sizeof stack, CLONE_FS | SIGCHLD, NULL);
		int status;
		CHECK(helper > 0 && waitpid(helper, &status, 0) == helper && status == 0);
		compute("below the root of a child");
		_exit(0);
	}
	reap("sandboxed", sandboxed);
	return 0;
}
