// Memory at addresses that a program wishes for, all over the address space: what it gets it can use,
// protect, move and give back. Where it insists on addresses that are taken it hears of that.
// covers: mmap mprotect munmap mremap madvise
#include "guest.h"
#include <sys/mman.h>

#define PAGE 4096ul

static void use(char *p, unsigned long bytes)
{
	p[0] = 1;
	p[bytes - 1] = 2;
	CHECK(mprotect(p, PAGE, PROT_READ) == 0 && p[0] == 1);
	CHECK(madvise(p, bytes, MADV_DONTNEED) == 0 && p[0] == 0);
	CHECK(mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0);
	p[0] = 3;
	char *moved = mremap(p, bytes, bytes + PAGE, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED && moved[0] == 3);
	CHECK(munmap(moved, bytes + PAGE) == 0);
}

int main(void)
{
	int kept = 0, tried = 0;
	// As engines do that place their heaps at random.
	for (unsigned long top = 0x10; top < 0x7f; top++)
		for (unsigned long low = 0; low < 3; low++) {
			char *wish = (char *)(top << 40 | low << 38 | 0x1234000);
			char *p = mmap(wish, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			CHECK(p != MAP_FAILED);
			kept += p == wish;
			tried++;
			use(p, 4 * PAGE);
		}
	nondet("%d of %d where they were wished for", kept, tried);
	char *wish = (char *)0x6a0000000000;
	char *large = mmap(wish - (1ul << 40), 1ul << 41, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(large != MAP_FAILED);
	CHECK(mprotect(large + (1ul << 40), PAGE, PROT_READ | PROT_WRITE) == 0);
	large[1ul << 40] = 1;
	CHECK(munmap(large, 1ul << 41) == 0);
	int got = 0, taken = 0;
	for (unsigned long i = 0; i < 64; i++) {
		char *at = (char *)(0x6a0000000000 + (i << 34));
		char *p = mmap(at, PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == MAP_FAILED) {
			CHECK(errno == EEXIST);
			taken++;
			continue;
		}
		CHECK(p == at);
		got++;
		use(p, PAGE);
	}
	nondet("%d got, %d taken", got, taken);
	say("done");
	return 0;
}
