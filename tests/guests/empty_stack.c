// A thread computes with an empty stack: its pointer is the first address of what follows, which
// is the kernel's clock where a stack fits below that.
// covers: mmap sched_yield
#include "guest.h"
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>

enum { STACK_BYTES = 16 * 4096, ROUNDS = 40, PAGES_BELOW = 64 };

static volatile int done;

// As far up as it fits below the dynamic linker: the kernel's pages lie between the two.
static char *stack_below_the_linker(void)
{
	char *linker = (char *)getauxval(AT_BASE);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	for (int pages = 0; linker && pages < PAGES_BELOW; pages++) {
		char *start = linker - pages * 4096L - STACK_BYTES;
		char *mapped = mmap(start, STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
		if (mapped == start)
			return mapped;
	}
	return mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static unsigned long mix(char *stack_end, unsigned long word)
{
	unsigned long rounds = 20 * 1000 * 1000;
	__asm__ volatile("mov %%rsp, %%r15\n\t"
			 "mov %2, %%rsp\n"
			 "1:\n\t"
			 "imul $0x5bd1e995, %0, %0\n\t"
			 "xor %1, %0\n\t"
			 "dec %1\n\t"
			 "jnz 1b\n\t"
			 "mov %%r15, %%rsp"
			 : "+r"(word), "+r"(rounds)
			 : "r"(stack_end)
			 : "r15", "cc", "memory");
	return word;
}

static void *computes(void *stack_end)
{
	unsigned long word = 1;
	for (int i = 0; i < ROUNDS; i++)
		word = mix(stack_end, word);
	done = 1;
	return (void *)word;
}

int main(void)
{
	pthread_t thread;
	void *word;
	long turns = 0;
	CHECK(pthread_create(&thread, NULL, computes, stack_below_the_linker() + STACK_BYTES) == 0);
	while (!done) {
		usleep(2000);
		turns++;
	}
	CHECK(pthread_join(thread, &word) == 0);
	say("%lx, %s", (unsigned long)word, turns > 0 ? "others ran" : "alone");
	return 0;
}
