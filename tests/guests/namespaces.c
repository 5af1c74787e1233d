// Namespaces, mounts and roots: as root for real, as a user up to the refusal.
// covers: unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount
// covers: fspick mount_setattr sethostname setdomainname
// not-by: write-protection sums
#include "guest.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/utsname.h>

static void uts(void)
{
	struct utsname name;
	if (outcome("unshare CLONE_NEWUTS", unshare(CLONE_NEWUTS)) == 0) {
		CHECK(sethostname("guest-host", 10) == 0);
		CHECK(setdomainname("guest-domain", 12) == 0);
		CHECK(uname(&name) == 0);
		say("host %s domain %s", name.nodename, name.domainname);
	}
}

static void mounts(void)
{
	CHECK(mkdir("m", 0700) == 0 && mkdir("m2", 0700) == 0);
	if (outcome("unshare CLONE_NEWNS", unshare(CLONE_NEWNS)) == -1)
		return;
	outcome("make private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	outcome("mount", mount("guest", "m", "tmpfs", 0, "size=1m"));
	write_file("m/file", "on the mount");
	nondet_outcome("open_tree", syscall(428, AT_FDCWD, "m", 0));
	long context = nondet_outcome("fsopen", syscall(430, "tmpfs", 0));
	nondet_outcome("fsconfig", syscall(431, context, 6, NULL, NULL, 0));
	long made = nondet_outcome("fsmount", syscall(432, context, 0, 0));
	nondet_outcome("move_mount", syscall(429, made, "", AT_FDCWD, "m2", 4));
	nondet_outcome("fspick", syscall(433, AT_FDCWD, "m2", 0));
	uint64_t attributes[4] = {1, 0, 0, 0};
	nondet_outcome("mount_setattr", syscall(442, AT_FDCWD, "m2", 0, attributes, 32));
	outcome("pivot_root", syscall(SYS_pivot_root, "absent", "absent"));
	outcome("umount2", umount2("m", MNT_DETACH));
	say("the file is gone: %d", access("m/file", F_OK));
	int own = open("/proc/self/ns/mnt", O_RDONLY);
	outcome("setns", setns(own, CLONE_NEWNS));
}

static void refused(void)
{
	nondet_outcome("open_tree", syscall(428, -1, "x", 0));
	nondet_outcome("fsopen", syscall(430, "tmpfs", 0));
	outcome("mount", mount("guest", "m", "tmpfs", 0, NULL));
	outcome("umount2", umount2("m", 0));
	outcome("pivot_root", syscall(SYS_pivot_root, ".", "."));
	outcome("setns", setns(0, 0));
}

static void new_root(void)
{
	CHECK(mkdir("root", 0755) == 0);
	write_file("root/inside", "x");
	if (outcome("chroot", chroot("root")) == 0) {
		CHECK(chdir("/") == 0);
		say("inside %d outside %d", access("/inside", F_OK), access("/proc", F_OK));
	}
}

int main(void)
{
	run_in_child("uts", uts);
	run_in_child("mounts", mounts);
	if (getuid() != 0)
		run_in_child("refused", refused);
	run_in_child("root", new_root);
	outcome("unshare CLONE_FILES | CLONE_FS", unshare(CLONE_FILES | CLONE_FS));
	return 0;
}
