// Code that two threads write into memory, run, change and run again, under alarms.
// covers: mmap mprotect setitimer
#include "threads.h"
#include <sys/mman.h>
#include <sys/time.h>

static volatile int ticks;

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

// rax = 0; do { rax = rax * 3 + IMM } while (--rdi); return rax
static const unsigned char loop[] = {
	0x31, 0xc0,			    // xor %eax, %eax
	0x48, 0x8d, 0x04, 0x40,		    // lea (%rax,%rax,2), %rax
	0x48, 0x05, 0x00, 0x00, 0x00, 0x00, // add $IMM, %rax
	0x48, 0xff, 0xcf,		    // dec %rdi
	0x75, 0xf1,			    // jnz to the lea
	0xc3,				    // ret
};
enum { IMMEDIATE_AT = 8 };

typedef uint64_t (*generated)(long rounds);

static uint64_t expected(uint32_t immediate, long rounds)
{
	uint64_t value = 0;
	for (long i = 0; i < rounds; i++)
		value = value * 3 + immediate;
	return value;
}

static void *generate_and_run(void *argument)
{
	uint64_t sum = (uint64_t)(uintptr_t)argument;
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(code != MAP_FAILED);
	memcpy(code, loop, sizeof loop);
	for (uint32_t i = 1; i <= 40; i++) {
		// Within what is already run: the processor sees it without being told.
		memcpy(code + IMMEDIATE_AT, &i, sizeof i);
		uint64_t got = ((generated)(uintptr_t)code)(20000);
		CHECK(got == expected(i, 20000));
		sum = sum * 31 + got;
	}
	CHECK(munmap(code, 4096) == 0);
	return (void *)sum;
}

// Never writable and executable at once, and each time at another address.
static void *generate_strictly(void *argument)
{
	uint64_t sum = (uint64_t)(uintptr_t)argument;
	for (uint32_t i = 1; i <= 40; i++) {
		unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(code != MAP_FAILED);
		memcpy(code, loop, sizeof loop);
		memcpy(code + IMMEDIATE_AT, &i, sizeof i);
		CHECK(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
		sum = sum * 31 + ((generated)(uintptr_t)code)(20000);
		CHECK(munmap(code, 4096) == 0);
	}
	return (void *)sum;
}

int main(void)
{
	struct itimerval t = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	handle(SIGALRM, on_tick, SA_RESTART);
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
	pthread_t threads[2] = {start(generate_and_run, (void *)1), start(generate_strictly, (void *)2)};
	for (int i = 0; i < 2; i++)
		say("thread %d: %lx", i, join(threads[i]));
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	nondet("ticks %d", ticks);
	return 0;
}
