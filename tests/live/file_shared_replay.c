// A program that reads from a shared mapping of a file what it later writes over: in a
// replay it must read the same again, and in the present find what it wrote last.
// prints: read f, then written g
// prints: replayed 1
// prints: replayed 2
#include "live.h"

int main(void)
{
	need_session();
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
	volatile char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	at[5] = 'f';
	int id = checkpoint();
	char was = at[5];
	at[5] = 'g';
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
