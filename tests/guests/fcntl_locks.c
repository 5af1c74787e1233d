// fcntl in all its commands, record locks of three kinds, flock, leases, seals are in memfd.c.
// covers: fcntl flock
#include "guest.h"
#include <sys/file.h>

static void try_locks(const char *who)
{
	int fd = open("lockfile", O_RDWR);
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
	CHECK(fd >= 0);
	int got = fcntl(fd, F_SETLK, &l);
	say("%s: F_SETLK %s", who, got == 0 ? "ok" : errno == EAGAIN || errno == EACCES ? "busy" : "?");
	l.l_type = F_WRLCK;
	CHECK(fcntl(fd, F_GETLK, &l) == 0);
	say("%s: F_GETLK type %d start %ld length %ld", who, l.l_type, (long)l.l_start, (long)l.l_len);
	nondet("holder %d", l.l_pid);
	outcome("flock", flock(fd, LOCK_EX | LOCK_NB));
	close(fd);
}

int main(void)
{
	write_file("lockfile", "0123456789abcdef");
	int fd = open("lockfile", O_RDWR | O_NONBLOCK);
	int flags = fcntl(fd, F_GETFL);
	say("flags %o", flags & (O_ACCMODE | O_NONBLOCK | O_APPEND));
	CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
	say("flags %o", fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_APPEND));
	CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	int high = fcntl(fd, F_DUPFD, 100);
	CHECK(high == 100);
	CHECK(fcntl(fd, F_DUPFD_CLOEXEC, 100) == 101);
	CHECK_ERR(fcntl(999, F_GETFL), EBADF);
	CHECK_ERR(fcntl(fd, 9999, 0), EINVAL);

	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 4};
	CHECK(fcntl(fd, F_SETLK, &l) == 0);
	CHECK(flock(fd, LOCK_SH) == 0);
	pid_t child = fork();
	if (child == 0) {
		try_locks("child");
		_exit(0);
	}
	reap("child", child);
	l.l_type = F_UNLCK;
	CHECK(fcntl(fd, F_SETLKW, &l) == 0);
	CHECK(flock(fd, LOCK_UN) == 0);
	child = fork();
	if (child == 0) {
		try_locks("second child");
		_exit(0);
	}
	reap("second child", child);

	struct flock ofd = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	outcome("F_OFD_SETLK", fcntl(fd, F_OFD_SETLK, &ofd));
	int other = open("lockfile", O_RDWR);
	ofd.l_type = F_WRLCK;
	outcome("F_OFD_SETLK conflict", fcntl(other, F_OFD_SETLK, &ofd));
	ofd.l_type = F_WRLCK;
	CHECK(fcntl(other, F_OFD_GETLK, &ofd) == 0);
	say("F_OFD_GETLK type %d pid %d", ofd.l_type, ofd.l_pid);

	CHECK(fcntl(fd, F_SETOWN, getpid()) == 0 && fcntl(fd, F_GETOWN) == getpid());
	struct f_owner_ex owner;
	CHECK(fcntl(fd, F_GETOWN_EX, &owner) == 0);
	nondet("owner %d %d", owner.type, owner.pid);
	CHECK(fcntl(fd, F_SETSIG, SIGUSR1) == 0 && fcntl(fd, F_GETSIG) == SIGUSR1);
	int reader = open("lockfile", O_RDONLY);
	close(other);
	close(high);
	close(101);
	outcome("F_SETLEASE", fcntl(reader, F_SETLEASE, F_RDLCK));
	say("lease %d", fcntl(reader, F_GETLEASE) >= 0);
	uint64_t hint = 2;
	outcome("F_SET_RW_HINT", fcntl(fd, F_SET_RW_HINT, &hint));
	hint = 99;
	outcome("F_GET_RW_HINT", fcntl(fd, F_GET_RW_HINT, &hint));
	int p[2];
	CHECK(pipe(p) == 0);
	say("pipe size %d", fcntl(p[1], F_GETPIPE_SZ));
	CHECK(fcntl(p[1], F_SETPIPE_SZ, 8192) == 8192);
	outcome("F_NOTIFY", fcntl(open(".", O_RDONLY), F_NOTIFY, 0));
	return 0;
}
