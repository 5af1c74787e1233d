// A file is mapped far beyond its end, to be read, and grows behind the mapping, as
// databases have it.
// covers: mmap pwrite64
#include "guest.h"
#include <sys/mman.h>

#define PAGE 4096l

static void grows(long pages, size_t mapped)
{
	unsigned char page[PAGE];
	int fd = open("far", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	memset(page, 1, sizeof page);
	for (long i = 0; i < pages; i++)
		CHECK(pwrite(fd, page, PAGE, i * PAGE) == PAGE);
	const unsigned char *m = mmap(NULL, mapped, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(m != MAP_FAILED);
	for (long i = pages - 2; i < pages + 20; i++) {
		page[0] = i;
		CHECK(pwrite(fd, page, PAGE, i * PAGE) == PAGE);
		CHECK(m[i * PAGE] == (unsigned char)i && m[i * PAGE + 1] == 1);
	}
	CHECK(munmap((void *)m, mapped) == 0);
	CHECK(close(fd) == 0 && unlink("far") == 0);
	say("%ld pages in %zu MB", pages, mapped >> 20);
}

int main(void)
{
	grows(4, 10ul << 30);
	// More than a recorder would copy.
	grows(20000, 1ul << 30);
	return 0;
}
