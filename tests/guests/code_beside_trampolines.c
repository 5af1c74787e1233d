// Memory for code that lies beside what retrovane mapped for itself near the program: the kernel would make one mapping of
// both.
// covers: mmap getppid
// build: -no-pie
#include "guest.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// The program's own code begins at 0x401000.
enum { FIRST = 0x200000, END = 0x400000, PAGE = 4096, LAST = PAGE - 1, PAGES = (END - FIRST) / PAGE };

// A site in the program itself.
static long parent(void)
{
	long result;
	__asm__ volatile("mov %1, %%eax\n\tsyscall\n\ttest %%rax, %%rax"
			 : "=&a"(result)
			 : "i"(SYS_getppid)
			 : "rcx", "r11", "memory", "cc");
	return result;
}

int main(void)
{
	static unsigned char *blocks[PAGES];
	static const unsigned char code[] = { 0xb8, 0x2a, 0x00, 0x00, 0x00, 0xc3 }; // mov $42, %eax; ret
	int wrong = 0;
	// From here on there is one.
	for (int i = 0; i < 10; i++)
		CHECK(parent() > 0);
	for (int i = 0; i < PAGES; i++) {
		void *place = (void *)((uintptr_t)FIRST + (uintptr_t)i * PAGE);
		int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
		void *block = mmap(place, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
		blocks[i] = block == MAP_FAILED ? NULL : block;
	}
	for (int i = 0; i < PAGES; i++) {
		if (!blocks[i])
			continue;
		memcpy(blocks[i], code, sizeof code);
		blocks[i][LAST] = (unsigned char)i;
		wrong += ((int (*)(void))(uintptr_t)blocks[i])() != 42;
	}
	for (int i = 0; i < 10; i++)
		CHECK(parent() > 0);
	for (int i = 0; i < PAGES; i++)
		wrong += blocks[i] && blocks[i][LAST] != (unsigned char)i;
	CHECK(wrong == 0);
	say("as they were written");
	return 0;
}
