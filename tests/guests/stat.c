// What is known about a file: stat in all forms, access, modes, owners, times.
// covers: stat fstat lstat newfstatat access faccessat faccessat2 chmod fchmod fchmodat fchmodat2
// covers: chown fchown lchown fchownat utime utimes futimesat utimensat statfs fstatfs ustat mknod
// covers: mknodat
#include "guest.h"
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <utime.h>

static void line(const char *what, const struct stat *s)
{
	say("%s: mode %o links %lu size %ld mtime %ld atime %ld", what, s->st_mode,
	    (unsigned long)s->st_nlink, S_ISDIR(s->st_mode) ? 0 : (long)s->st_size,
	    s->st_mtime < 1000000000 ? (long)s->st_mtime : -1,
	    s->st_atime < 1000000000 ? (long)s->st_atime : -1);
	nondet("inode %lu device %lu ctime %ld.%09ld", s->st_ino, s->st_dev, s->st_ctim.tv_sec,
	       s->st_ctim.tv_nsec);
}

int main(void)
{
	struct stat s;
	umask(022);
	write_file("f", "12345");
	CHECK(syscall(SYS_stat, "f", &s) == 0);
	line("stat", &s);
	CHECK(symlink("f", "l") == 0);
	CHECK(syscall(SYS_lstat, "l", &s) == 0 && S_ISLNK(s.st_mode));
	say("lstat: size %ld", (long)s.st_size);
	CHECK_ERR(syscall(SYS_stat, "absent", &s), ENOENT);
	CHECK_ERR(syscall(SYS_stat, "f", BAD), EFAULT);
	int fd = open("f", O_RDWR);
	CHECK(chmod("f", 0640) == 0);
	CHECK(syscall(SYS_fstat, fd, &s) == 0);
	line("fstat", &s);
	CHECK(fchmod(fd, 0604) == 0);
	CHECK(syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) == 0);
	line("newfstatat", &s);
	CHECK(syscall(SYS_fchmodat, AT_FDCWD, "f", 0600) == 0);
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
	outcome("fchmodat2", syscall(SYS_fchmodat2, AT_FDCWD, "f", 0666, 0));
	CHECK(access("f", R_OK | W_OK) == 0);
	CHECK_ERR(access("f", X_OK), EACCES);
	CHECK_ERR(access("absent", F_OK), ENOENT);
	CHECK(syscall(SYS_faccessat, AT_FDCWD, "f", R_OK) == 0);
	outcome("faccessat2", syscall(439, AT_FDCWD, "f", R_OK, AT_EACCESS));
	outcome("chown", chown("f", getuid(), getgid()));
	outcome("fchown", fchown(fd, -1, -1));
	outcome("lchown", lchown("l", getuid(), -1));
	outcome("fchownat", fchownat(AT_FDCWD, "f", 0, 0, 0));
	struct utimbuf u = {.actime = 111, .modtime = 222};
	CHECK(syscall(SYS_utime, "f", &u) == 0 && stat("f", &s) == 0);
	line("utime", &s);
	struct timeval tv[2] = {{333, 1000}, {444, 2000}};
	CHECK(syscall(SYS_utimes, "f", tv) == 0 && stat("f", &s) == 0);
	line("utimes", &s);
	tv[0].tv_sec = 555;
	CHECK(syscall(SYS_futimesat, AT_FDCWD, "f", tv) == 0 && stat("f", &s) == 0);
	line("futimesat", &s);
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, {777, 888}};
	CHECK(utimensat(AT_FDCWD, "l", ts, 0) == 0 && stat("f", &s) == 0);
	line("utimensat", &s);
	CHECK(s.st_mtim.tv_nsec == 888);
	CHECK(futimens(fd, NULL) == 0 && fstat(fd, &s) == 0);
	nondet("touched at %ld", s.st_mtime);
	struct statfs fs;
	CHECK(statfs(".", &fs) == 0);
	nondet("statfs type %lx free %lu", (long)fs.f_type, (long)fs.f_bfree);
	CHECK(fstatfs(fd, &fs) == 0);
	nondet("fstatfs blocks %lu", (long)fs.f_blocks);
	char old_form[64];
	outcome("ustat", syscall(SYS_ustat, (unsigned)s.st_dev, old_form));
	CHECK(syscall(SYS_mknod, "fifo", S_IFIFO | 0600, 0) == 0 && stat("fifo", &s) == 0);
	say("fifo: %d", S_ISFIFO(s.st_mode));
	CHECK(mknodat(AT_FDCWD, "sock", S_IFSOCK | 0600, 0) == 0);
	outcome("device node", mknod("null", S_IFCHR | 0666, makedev(1, 3)));
	return 0;
}
