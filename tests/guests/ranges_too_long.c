// Calls on more memory than there is are refused, and change nothing: a program that tries
// them, as fuzzers do, goes on.
// covers: munmap mprotect madvise mmap mremap
#include "guest.h"
#include <sys/mman.h>

#define PAGE 4096ul
#define ALL (~0ul)

static void refused(const char *what, long result)
{
	say("%s: %s", what, result == -1 ? strerror(errno) : "done");
	CHECK(result == -1);
}

int main(void)
{
	unsigned char *own = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const unsigned long lengths[] = { ALL, ALL - PAGE, 1ul << 63, 1ul << 60 };
	CHECK(own != MAP_FAILED);
	memset(own, 7, 4 * PAGE);
	for (int i = 0; i < 4; i++) {
		refused("munmap of all", munmap(NULL, lengths[i]));
		refused("munmap from here", munmap(own, lengths[i]));
		refused("mprotect of all", mprotect(NULL, lengths[i], PROT_NONE));
		refused("mmap", (long)mmap(NULL, lengths[i], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		refused("mremap", (long)mremap(own, 4 * PAGE, lengths[i], MREMAP_MAYMOVE));
	}
	refused("mprotect over the end", mprotect(own, ALL, PROT_NONE));
	refused("madvise over the end", madvise(own, ALL, MADV_DONTNEED));
	refused("munmap of nothing", munmap(own, 0));
	refused("munmap of half a page", munmap(own + 1, PAGE));
	for (unsigned long i = 0; i < 4 * PAGE; i++)
		CHECK(own[i] == 7);
	CHECK(munmap(own, 4 * PAGE) == 0);
	return 0;
}
