// Copies inside the kernel.
// covers: sendfile splice tee vmsplice copy_file_range
#include "guest.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

int main(void)
{
	char text[64] = "";
	int p[2], q[2];
	write_file("from", "the quick brown fox jumps");
	int from = open("from", O_RDONLY);
	int to = open("to", O_RDWR | O_CREAT, 0600);
	off_t at = 4;
	CHECK(sendfile(to, from, &at, 5) == 5 && at == 9);
	CHECK(sendfile(to, from, NULL, 3) == 3 && lseek(from, 0, SEEK_CUR) == 3);
	CHECK(pread(to, text, sizeof text, 0) == 8);
	say("sendfile: %s", text);
	loff_t in = 10, out = 20;
	outcome("copy_file_range", copy_file_range(from, &in, to, &out, 5, 0));
	say("positions %ld %ld", (long)in, (long)out);
	CHECK(pipe(p) == 0 && pipe(q) == 0);
	in = 0;
	CHECK(splice(from, &in, p[1], NULL, 9, 0) == 9 && in == 9);
	CHECK(tee(p[0], q[1], 9, 0) == 9);
	memset(text, 0, sizeof text);
	CHECK(read(q[0], text, sizeof text) == 9);
	say("tee: %s", text);
	out = 0;
	CHECK(splice(p[0], NULL, to, &out, 9, 0) == 9 && out == 9);
	CHECK_ERR(splice(p[0], NULL, to, NULL, 9, SPLICE_F_NONBLOCK), EAGAIN);
	struct iovec vector = {"gifted pages", 12};
	// A recorder may refuse this: the pages stay shared with the pipe.
	if (nondet_outcome("vmsplice", vmsplice(p[1], &vector, 1, 0)) == 12) {
		memset(text, 0, sizeof text);
		CHECK(read(p[0], text, sizeof text) == 12 && strcmp(text, "gifted pages") == 0);
		CHECK(write(p[1], "inwards", 7) == 7);
		vector = (struct iovec){text, 7};
		CHECK(vmsplice(p[0], &vector, 1, 0) == 7 && memcmp(text, "inwards", 7) == 0);
	}
	CHECK_ERR(sendfile(to, 999, NULL, 1), EBADF);
	CHECK_ERR(splice(from, NULL, to, NULL, 1, 0), EINVAL);
	return 0;
}
