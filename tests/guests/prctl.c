// Process controls, and the x86 bases.
// covers: prctl arch_prctl personality
#include "guest.h"
#include <asm/prctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>

int main(void)
{
	char name[17] = "";
	int value = -1;
	CHECK(prctl(PR_SET_NAME, "guest-with-a-long-name") == 0);
	CHECK(prctl(PR_GET_NAME, name) == 0);
	say("name %s", name);
	CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &value) == 0);
	say("death signal %d", value);
	CHECK(prctl(PR_SET_PDEATHSIG, 0) == 0);
	say("dumpable %d", prctl(PR_GET_DUMPABLE));
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
	say("dumpable %d", prctl(PR_GET_DUMPABLE));
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
	say("keepcaps %d", prctl(PR_GET_KEEPCAPS));
	say("no new privileges %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	say("no new privileges %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	CHECK(prctl(PR_GET_CHILD_SUBREAPER, &value) == 0);
	say("subreaper %d", value);
	pid_t middle = fork();
	if (middle == 0) {
		if (fork() == 0)
			_exit(23);
		_exit(0);
	}
	reap("middle", middle);
	int status;
	CHECK(wait(&status) > 0);
	say_status("adopted grandchild", status);
	nondet("timer slack %d", prctl(PR_GET_TIMERSLACK));
	CHECK(prctl(PR_SET_TIMERSLACK, 1000) == 0);
	say("timer slack %d", prctl(PR_GET_TIMERSLACK));
	outcome("PR_SET_THP_DISABLE", prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	say("PR_GET_THP_DISABLE %d", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	outcome("PR_CAPBSET_READ", prctl(PR_CAPBSET_READ, 0));
	nondet("securebits %d", prctl(PR_GET_SECUREBITS));
	int tsc = 0;
	CHECK(prctl(PR_GET_TSC, &tsc) == 0);
	say("rdtsc is allowed: %d", tsc == PR_TSC_ENABLE);
	CHECK_ERR(prctl(9999, 0, 0, 0, 0), EINVAL);
	unsigned long base = 0;
	CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base != 0);
	nondet("fs base %lx", base);
	CHECK(syscall(SYS_arch_prctl, ARCH_SET_FS, base) == 0);
	CHECK_ERR(syscall(SYS_arch_prctl, 0x7777, 0), EINVAL);
	nondet("personality %x", personality(0xffffffff));
	return 0;
}
