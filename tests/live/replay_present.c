// A replay ends in the present: rv_replay returns 0, what was printed, written and sent
// is there once, and what was read is not read again.
// prints: before
// prints: line 1
// prints: line 2
// prints: line 3
// prints: replayed 1
// prints: replayed 2
// prints: replayed 3
// prints: the file has 12 bytes, the pipe 3
// prints: and on in the present
#include "live.h"
#include <sys/ioctl.h>

int main(void)
{
	need_session();
	int out = open("out", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600), ends[2];
	write_file("in", "abcdefgh");
	int in = open("in", O_RDONLY);
	CHECK(out >= 0 && in >= 0 && pipe(ends) == 0);
	say("before");
	int id = checkpoint();
	for (int i = 1; i <= 3; i++) {
		say("line %d", i);
		write_all(out, "data", 4);
		write_all(ends[1], "x", 1);
		char byte;
		read_all(in, &byte, 1);
		CHECK(byte == 'a' + i - 1);
	}
	for (int i = 1; i <= 3; i++) {
		CHECK(rv_replay(id) == 0);
		say("replayed %d", i);
	}
	CHECK(rv_replaying() == 0);
	struct stat status;
	int waiting;
	CHECK(fstat(out, &status) == 0 && ioctl(ends[0], FIONREAD, &waiting) == 0);
	say("the file has %ld bytes, the pipe %d", (long)status.st_size, waiting);
	expect_input(in, "d");
	forget(id);
	CHECK_ERR(rv_replay(id), ENOENT);
	say("and on in the present");
	return 0;
}
