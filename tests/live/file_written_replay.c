// A program that reads a file through a mapping that it cannot write, and changes the file by
// system calls, as databases do: in a replay it must read the same again, in the present what
// the file holds.
// prints: read f, then written g
// prints: replayed 1
// prints: replayed 2
#include "live.h"

int main(void)
{
	need_session();
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
	CHECK(pwrite(fd, "f", 1, 5) == 1);
	volatile char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	CHECK(at[5] == 'f');
	int id = checkpoint();
	char was = at[5];
	CHECK(pwrite(fd, "g", 1, 5) == 1);
	// Checked against the log: it differs if what was read differs.
	say("read %c, then written %c", was, at[5]);
	for (int i = 1; i <= 2; i++) {
		again(id);
		char now;
		CHECK(was == 'f' && at[5] == 'g');
		CHECK(pread(fd, &now, 1, 5) == 1 && now == 'g');
		say("replayed %d", i);
	}
	forget(id);
	return 0;
}
