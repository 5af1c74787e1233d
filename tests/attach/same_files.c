// A program that maps files of the same content: each is in the trace that is saved.
// prints-in-replay
#include "attach.h"
#include <errno.h>
#include <fcntl.h>

static char first_of(const char *name)
{
	long page = sysconf(_SC_PAGESIZE);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && write(fd, "content", 7) == 7);
	char *at = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(at != MAP_FAILED && close(fd) == 0);
	char first = at[0];
	CHECK(munmap(at, page) == 0);
	// A way back may lead to before this, and the name stays gone.
	CHECK(unlink(name) == 0 || errno == ENOENT);
	return first;
}

int main(void)
{
	permit();
	for (long step = 1;; step++) {
		char one = first_of("same-1"), other = first_of("same-2");
		CHECK(one == 'c' && other == 'c');
		printf("step %ld\n", step);
		nap(10);
	}
}
