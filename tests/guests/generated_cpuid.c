// Code that is written first, and then made executable, asks which processor it runs on; the answers
// hold the number of the processor, and stay in memory.
// covers: mmap mprotect munmap
#include "ask_processor.h"
#include "guest.h"
#include <sys/mman.h>

#define ROUNDS 40

static unsigned ask(size_t offset)
{
	unsigned char *page =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	memcpy(page + offset, code, sizeof code);
	CHECK(mprotect(page, 8192, PROT_READ | PROT_EXEC) == 0);
	unsigned (*function)(void);
	void *address = page + offset;
	memcpy(&function, &address, sizeof function);
	unsigned answer = function();
	CHECK(munmap(page, 8192) == 0);
	return answer;
}

// It takes a processor from us now and then.
static void compute(void)
{
	for (volatile unsigned long count = 0;; count++)
		;
}

int main(void)
{
	pid_t other = start_child(compute);
	unsigned mixed = 0;
	for (int round = 0; round < ROUNDS; round++) {
		// Also where the instruction lies in two parts.
		mixed = mixed * 31 + ask(round % 2 ? 1015 : 100);
		usleep(1000);
	}
	CHECK(kill(other, SIGKILL) == 0);
	int status;
	CHECK(waitpid(other, &status, 0) == other);
	say("asked %d times", ROUNDS);
	nondet("%x", mixed);
	return 0;
}
