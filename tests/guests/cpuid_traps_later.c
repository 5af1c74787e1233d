// cpuid stands in the program's own code, also between branches, where no jump fits; later the program
// makes code that executes it, too, for all threads and their children. The answers hold the number of
// the processor.
// covers: mmap fork
#include "ask_processor.h"
#include "guest.h"
#include <pthread.h>
#include <sys/mman.h>

#define ROUNDS 300

static pthread_barrier_t barrier;
static unsigned (*volatile generated)(void);

static unsigned plain(void)
{
	unsigned a = 1, b, c = 0, d;
	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return b;
}

// A branch leads to each instruction around.
static unsigned between_branches(void)
{
	unsigned a = 1, b, c = 0, d;
	__asm__ volatile("jmp 2f\n"
	                 "1: cpuid\n"
	                 "3: jmp 4f\n"
	                 "2: jmp 1b\n"
	                 "jmp 3b\n"
	                 "4:"
	                 : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return b;
}

static unsigned ask_all(unsigned mixed)
{
	for (int round = 0; round < ROUNDS; round++) {
		mixed = mixed * 31 + plain();
		mixed = mixed * 31 + between_branches();
		if (generated)
			// Where it does not trap the number is the processor's.
			mixed = mixed * 31 + (generated() & 0x00ffffff);
		if (round % 100 == 0)
			usleep(1000);
	}
	return mixed;
}

static void generate(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	memcpy(page, code, sizeof code);
	unsigned (*function)(void);
	memcpy(&function, &page, sizeof function);
	generated = function;
}

static void *other(void *answer)
{
	unsigned mixed = ask_all(0);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	*(unsigned *)answer = ask_all(mixed);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	unsigned theirs = 0;
	CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
	CHECK(pthread_create(&thread, NULL, other, &theirs) == 0);
	unsigned mixed = ask_all(0);
	pthread_barrier_wait(&barrier);
	generate();
	pthread_barrier_wait(&barrier);
	mixed = ask_all(mixed);
	CHECK(pthread_join(thread, NULL) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		nondet("child %x", ask_all(0));
		fflush(stdout);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	nondet("%x %x", mixed, theirs);
	say("asked before and after");
	return 0;
}
