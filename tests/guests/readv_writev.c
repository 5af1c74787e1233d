// Vectors of buffers, with positions and flags.
// covers: readv writev preadv pwritev preadv2 pwritev2
#include "guest.h"
#include <sys/uio.h>

int main(void)
{
	char a[4], b[8], c[100];
	struct iovec out[3] = {{"abc", 3}, {"", 0}, {"defghij", 7}};
	struct iovec in[3] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}};
	int fd = open("v", O_RDWR | O_CREAT, 0600);
	CHECK(writev(fd, out, 3) == 10);
	CHECK(pwritev(fd, out, 3, 10) == 10);
	CHECK(pwritev2(fd, out, 3, -1, 0) == 10);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	memset(c, '#', sizeof c);
	CHECK(readv(fd, in, 3) == 20);
	say("readv: %.4s %.8s %.8s rest %c", a, b, c, c[8]);
	CHECK(preadv(fd, in, 2, 5) == 12);
	say("preadv: %.4s %.8s", a, b);
	CHECK(preadv2(fd, in, 3, 15, 0) == 5);
	say("preadv2: %.4s %.1s", a, b);
	outcome("RWF_NOWAIT", preadv2(fd, in, 1, 0, RWF_NOWAIT));
	outcome("RWF_DSYNC", pwritev2(fd, out, 1, 0, RWF_DSYNC));
	CHECK_ERR(readv(fd, in, hidden(-1)), EINVAL);
	CHECK_ERR(readv(fd, BAD, 1), EFAULT);
	CHECK(readv(fd, NULL, 0) == 0);
	struct iovec bad[2] = {{a, 4}, {BAD, 4}};
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	say("partly bad vector: %zd", readv(fd, bad, 2));
	return 0;
}
