// Device controls outside of terminals.
// covers: ioctl
#include "guest.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void)
{
	int p[2], waiting = -1, flags = 0, on = 1;
	CHECK(pipe(p) == 0);
	CHECK(write(p[1], "12345", 5) == 5);
	CHECK(ioctl(p[0], FIONREAD, &waiting) == 0);
	say("FIONREAD %d", waiting);
	CHECK(ioctl(p[0], FIONBIO, &on) == 0 && (fcntl(p[0], F_GETFL) & O_NONBLOCK));
	CHECK(ioctl(p[0], FIOCLEX) == 0 && fcntl(p[0], F_GETFD) == FD_CLOEXEC);
	CHECK(ioctl(p[0], FIONCLEX) == 0 && fcntl(p[0], F_GETFD) == 0);
	int fd = open("f", O_RDWR | O_CREAT, 0600);
	CHECK(write(fd, "0123456789", 10) == 10 && lseek(fd, 4, SEEK_SET) == 4);
	CHECK(ioctl(fd, FIONREAD, &waiting) == 0);
	say("left in the file %d", waiting);
	if (outcome("FS_IOC_GETFLAGS", ioctl(fd, FS_IOC_GETFLAGS, &flags)) == 0)
		nondet("flags %x", flags);
	outcome("FIGETBSZ", ioctl(fd, FIGETBSZ, &flags));
	outcome("FICLONE", ioctl(open("g", O_RDWR | O_CREAT, 0600), FICLONE, fd));
	outcome("unknown", ioctl(fd, 0xdeadbeef, &flags));
	CHECK_ERR(ioctl(999, FIONREAD, &waiting), EBADF);
	CHECK_ERR(ioctl(p[0], FIONREAD, BAD), EFAULT);
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(write(pair[1], "abc", 3) == 3);
	CHECK(ioctl(pair[0], FIONREAD, &waiting) == 0);
	say("in the socket %d", waiting);
	int zero = open("/dev/zero", O_RDONLY);
	char text[8] = "xxxxxxx";
	CHECK(read(zero, text, 7) == 7 && text[6] == 0);
	CHECK_ERR(write(open("/dev/full", O_WRONLY), "x", 1), ENOSPC);
	unsigned char random[16];
	CHECK(read(open("/dev/urandom", O_RDONLY), random, 16) == 16);
	nondet("urandom %llx", (unsigned long long)hash_bytes(random, 16));
	int entropy = 0;
	CHECK(ioctl(open("/dev/urandom", O_RDONLY), 0x80045200, &entropy) == 0); // RNDGETENTCNT
	nondet("entropy %d", entropy);
	return 0;
}
