// Bytes of which nobody can tell, without running them, whether they read the time
// stamp counter: they are data first, and then they are executed. Time from there on,
// calls and code that is mapped twice are as before.
// covers: clock_gettime mprotect mremap
#include "guest.h"
#include <sys/mman.h>
#include <time.h>

// Zeros are instructions of two bytes whichever way they are read, and no symbol or
// unwind entry covers them.
__asm__(".pushsection .text\n"
	".p2align 12\n"
	"	.skip 2000, 0\n"
	"bytes_in_doubt: .byte 0x0f, 0x31, 0xc3\n"
	"	.skip 97, 0xcc\n"
	"	.p2align 12, 0xcc\n"
	"	.skip 2000, 0\n"
	"more_in_doubt: .byte 0x0f, 0x31, 0xc3\n"
	"	.skip 97, 0xcc\n"
	"	.p2align 12, 0xcc\n"
	".popsection\n");
extern const unsigned char bytes_in_doubt[], more_in_doubt[];

static unsigned low_of(const unsigned char *code)
{
	unsigned low;
	__asm__ volatile("call *%1" : "=&a"(low) : "r"(code) : "rdx", "memory", "cc");
	return low;
}

static long now(void)
{
	struct timespec time;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void moves_it(void)
{
	char *page = (char *)((unsigned long)more_in_doubt & ~4095ul);
	char *other = mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED,
			     mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	CHECK(other != MAP_FAILED);
	nondet("moved %u", low_of((unsigned char *)other + (more_in_doubt - (unsigned char *)page)));
	CHECK(mprotect(other, 4096, PROT_READ) == 0);
	CHECK(mprotect(other, 4096, PROT_READ | PROT_EXEC) == 0);
	nondet("again %u", low_of((unsigned char *)other + (more_in_doubt - (unsigned char *)page)));
}

int main(int argc, char **argv)
{
	(void)argv;
	long before = now();
	CHECK(bytes_in_doubt[0] == 0x0f && bytes_in_doubt[1] == 0x31 && more_in_doubt[2] == 0xc3);
	say("read");
	if (argc > 1) {
		moves_it();
		return 0;
	}
	unsigned mixed = 0;
	for (int i = 0; i < 200; i++)
		mixed = mixed * 31 + low_of(bytes_in_doubt);
	nondet("mixed %x", mixed);
	long after = now();
	CHECK(after >= before);
	nondet("took %ld", after - before);
	moves_it();
	say("executed");
	return 0;
}
