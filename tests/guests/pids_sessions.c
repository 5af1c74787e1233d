// Who a process is: pids, groups, sessions, users and groups.
// covers: getpid getppid gettid getpgid setpgid getpgrp getsid setsid getuid geteuid getgid getegid
// covers: setuid setgid setreuid setregid setresuid setresgid getresuid getresgid getgroups setgroups
// covers: setfsuid setfsgid capget capset
#include "guest.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>

int main(void)
{
	pid_t me = getpid();
	nondet("pid %d parent %d group %d session %d", me, getppid(), getpgrp(), getsid(0));
	CHECK(syscall(SYS_gettid) == me);
	CHECK(getpgid(0) == getpgrp() && getpgid(me) == getpgrp());
	CHECK_ERR(getpgid(0x7ffffff), ESRCH);
	pid_t child = fork();
	if (child == 0) {
		CHECK(getppid() == me);
		CHECK(setpgid(0, 0) == 0 && getpgrp() == getpid());
		CHECK_ERR(setsid(), EPERM);
		pid_t grandchild = fork();
		if (grandchild == 0) {
			CHECK(setsid() == getpid() && getsid(0) == getpid());
			_exit(3);
		}
		reap("session leader", grandchild);
		_exit(4);
	}
	reap("group leader", child);
	CHECK_ERR(setpgid(1, 0), ESRCH);
	say("users %d %d groups %d %d", getuid(), geteuid(), getgid(), getegid());
	uid_t r = 9, e = 9, s = 9;
	CHECK(getresuid(&r, &e, &s) == 0);
	say("%d %d %d", r, e, s);
	CHECK(getresgid(&r, &e, &s) == 0);
	say("%d %d %d", r, e, s);
	gid_t groups[64];
	int count = getgroups(64, groups);
	CHECK(count >= 0 && getgroups(0, NULL) == count);
	nondet("%d groups", count);
	outcome("setgroups", setgroups(1, (gid_t[]){12345}));
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{0}};
	CHECK(syscall(SYS_capget, &header, data) == 0);
	nondet("capabilities %x %x", data[0].effective, data[1].effective);
	CHECK(syscall(SYS_capset, &header, data) == 0);
	header.version = 1;
	CHECK_ERR(syscall(SYS_capget, &header, data), EINVAL);
	nondet("version preferred %x", header.version);
	child = fork();
	if (child == 0) {
		say("setfsuid %d", setfsuid(0) == (int)geteuid());
		say("setfsgid %d", setfsgid(0) == (int)getegid());
		outcome("setregid", setregid(-1, 65534));
		outcome("setresgid", setresgid(65534, 65534, 65534));
		outcome("setgid", setgid(65534));
		outcome("setgid back", setgid(0));
		outcome("setreuid", setreuid(-1, getuid()));
		outcome("setresuid", setresuid(65534, 65534, 65534));
		outcome("setuid", setuid(65534));
		outcome("setuid back", setuid(0));
		CHECK(getuid() == 65534 && geteuid() == 65534);
		_exit(0);
	}
	reap("dropped", child);
	return 0;
}
