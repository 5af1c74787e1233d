// Threads that compute behind reads of the time in code that was written before it was made
// executable, which trap: who reads the time looks, in replay, for the pause that comes next,
// in code that cannot be written.
// covers: mprotect
#include "threads.h"
#include <sys/mman.h>

enum { ROUNDS = 60, LENGTH = 10000000 };

__asm__(".pushsection .rodata\n"
	"code:	mov %rdi, %rcx\n"
	"	xor %esi, %esi\n"
	"	rdtsc\n"
	"1:	add %rcx, %rsi\n"
	"	dec %rcx\n"
	"	jnz 1b\n"
	"	mov %rsi, %rax\n"
	"	ret\n"
	"code_end:\n"
	".popsection\n");
extern const char code[], code_end[];

static unsigned long (*generated)(unsigned long rounds);

static void *live(void *argument)
{
	unsigned long sum = (unsigned long)argument;
	for (int i = 0; i < ROUNDS; i++)
		sum = sum * 3 + generated(LENGTH);
	return (void *)sum;
}

int main(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	memcpy(page, code, (size_t)(code_end - code));
	CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
	memcpy(&generated, &page, sizeof page);
	pthread_t threads[2];
	for (unsigned long i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, live, (void *)i) == 0);
	for (int i = 0; i < 2; i++) {
		void *sum;
		CHECK(pthread_join(threads[i], &sum) == 0);
		printf("%lx\n", (unsigned long)sum);
	}
	return 0;
}
