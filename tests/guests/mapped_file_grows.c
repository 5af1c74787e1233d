// A file changes its size and content while it is mapped.
// covers: ftruncate fallocate mremap
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
	int fd = open("grows", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK(write(fd, "start", 5) == 5);
	char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(m != MAP_FAILED);
	const char *view = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(view != MAP_FAILED);
	CHECK(ftruncate(fd, 3 * 4096) == 0);
	m = mremap(m, 4096, 3 * 4096, MREMAP_MAYMOVE);
	CHECK(m != MAP_FAILED);
	memcpy(m + 2 * 4096, "third page", 10);
	memcpy(m + 5, " and more", 9);
	say("through the other mapping: %s", view);
	CHECK(pwrite(fd, "written behind", 14, 4096) == 14);
	say("written: %s", m + 4096);
	say("stored: %s", m + 2 * 4096);
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0)
		CHECK(m[4096] == 0);
	CHECK(ftruncate(fd, 10) == 0);
	CHECK(ftruncate(fd, 3 * 4096) == 0);
	say("cut and grown: %s, %d", m, m[2 * 4096]);
	CHECK(unlink("grows") == 0);
	return 0;
}
