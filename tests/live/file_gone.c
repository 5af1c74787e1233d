// A private mapping of a file that has no name any more when the program goes back: all of its
// pages are as they were, also those that nobody had read before.
// prints: mapped as before
#include "live.h"

int main(void)
{
	need_session();
	char text[4 * PAGE];
	memset(text, 'f', sizeof text);
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	write_all(fd, text, sizeof text);
	char *at = mmap(NULL, sizeof text, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(at != MAP_FAILED && close(fd) == 0);
	at[0] = 'p';
	// Too much for checkpoints that save pages, which would need the file: they say so.
	char *shared = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(munmap(at, sizeof text) == 0 && unlink("mapped") == 0);
		back(id);
	}
	CHECK(at[0] == 'p' && at[1] == 'f' && at[PAGE] == 'f' && at[3 * PAGE] == 'f');
	say("mapped as before");
	return 0;
}
