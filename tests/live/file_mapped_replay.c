// A shared mapping of a file that was made since the checkpoint: a replay makes it again, and
// in the present it is the file's, so that nothing is lost that is stored there.
// prints: stored g
// prints: 1: the same
// prints: 2: the same
#include "live.h"

int main(void)
{
	need_session();
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
	int id = checkpoint();
	volatile char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	at[5] = 'g';
	say("stored %c", at[5]);
	for (char i = 1; i <= 2; i++) {
		again(id);
		char now;
		CHECK(at[5] == (i == 1 ? 'g' : 'h' + 1));
		at[5] = 'h' + i;
		CHECK(pread(fd, &now, 1, 5) == 1 && now == 'h' + i);
		CHECK(pwrite(fd, "x", 1, PAGE) == 1 && at[PAGE] == 'x');
		CHECK(pwrite(fd, "y", 1, PAGE) == 1 && at[PAGE] == 'y');
		say("%d: the same", i);
	}
	forget(id);
	return 0;
}
