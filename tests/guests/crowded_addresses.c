// Alarms in loops of generated code with all addresses reserved around it, as engines of
// JavaScript with several heaps do: what replay puts beside a loop has its place far away.
// covers: mmap munmap setitimer
#include "threads.h"
#include <sys/mman.h>
#include <sys/time.h>

#define MIB (1ul << 20)

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

// rax = 1; do { rax *= 3; jmp over } while (--rdi); return rax
static const unsigned char long_jump[] = {
	0x31, 0xc0, 0xff, 0xc0,		    // xor %eax, %eax; inc %eax
	0x48, 0x8d, 0x04, 0x40,		    // lea (%rax,%rax,2), %rax
	0xe9, 0x06, 0x00, 0x00, 0x00,	    // jmp to the dec
	0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b, // ud2, three times
	0x48, 0xff, 0xcf,		    // dec %rdi
	0x75, 0xec,			    // jnz to the lea
	0xc3,				    // ret
};

// The same of short instructions, which no jump replaces alone.
static const unsigned char short_ones[] = {
	0x31, 0xc0,		// xor %eax, %eax
	0x48, 0x8d, 0x04, 0x40, // lea (%rax,%rax,2), %rax
	0x48, 0xff, 0xc0,	// inc %rax
	0x48, 0xff, 0xcf,	// dec %rdi
	0x75, 0xf4,		// jnz to the lea
	0xc3,			// ret
};

typedef uint64_t (*generated)(long rounds);

static void run(const char *name, unsigned char *code, const unsigned char *bytes, size_t count)
{
	struct itimerval t = {{0, 4000}, {0, 4000}}, off = {{0, 0}, {0, 0}};
	memcpy(code, bytes, count);
	ticks = 0;
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
	uint64_t sum = 0;
	while (ticks < 8)
		sum = ((generated)(uintptr_t)code)(30000000);
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	say("%s: %lx", name, sum);
}

int main(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *all = mmap(NULL, 4096 * MIB, PROT_NONE, flags, -1, 0);
	CHECK(all != MAP_FAILED);
	unsigned char *code = mmap(all + 2048 * MIB, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, flags | MAP_FIXED, -1, 0);
	CHECK(code != MAP_FAILED);
	CHECK(munmap(all + 408 * MIB, 40 * MIB) == 0);
	CHECK(munmap(all + 2748 * MIB, 40 * MIB) == 0);
	handle(SIGALRM, on_tick, SA_RESTART);
	run("a long jump", code, long_jump, sizeof long_jump);
	run("short ones", code, short_ones, sizeof short_ones);
	return 0;
}
