// The loader's way to save vector registers (xsavec): the program's own values are saved and
// come back, and an area that cannot be written to, or is not aligned, faults as without the tool.
// Upper halves that were not in use are not in use afterwards, nor after a signal: code would be
// slow that mixes AVX and SSE.
// needs: cpu:xsavec
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

#define PARTS 7 // x87, SSE, AVX

static sigjmp_buf landing;
static siginfo_t fault;
static long place;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	fault = *info;
	siglongjmp(landing, 1);
}

// Sets a register, saves, overwrites it, and gives back what was saved.
__attribute__((noinline)) static unsigned long save(void *area, unsigned long value)
{
	unsigned long got;
	__asm__ volatile("movq %[value], %%xmm9\n\t"
			 "xor %%edx, %%edx\n\t"
			 "mov %[parts], %%eax\n\t"
			 "movq %%rdx, %[place]\n\t"
			 "xsavec (%[area])\n\t"
			 "pxor %%xmm9, %%xmm9\n\t"
			 "xrstor (%[area])\n\t"
			 "movq %%xmm9, %[got]"
			 : [got] "=r"(got), [place] "=m"(place)
			 : [area] "r"(area), [value] "r"(value), [parts] "i"(PARTS)
			 : "rax", "rdx", "xmm9", "memory");
	return got;
}

static void faults(const char *what, char *area)
{
	if (sigsetjmp(landing, 1) == 0) {
		save(area, 1);
		say("%s: saved", what);
	} else {
		say("%s: signal %d, code %d, %s", what, fault.si_signo, fault.si_code,
		    fault.si_addr == area ? "there" : fault.si_addr ? "elsewhere" : "nowhere");
	}
}

static void on_user(int signal)
{
	(void)signal;
}

// Whether the processor takes the upper halves of the vector registers to be in use.
static unsigned upper_halves(void)
{
	unsigned low, high;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
	return low & 4;
}

int main(void)
{
	static char area[4096] __attribute__((aligned(64)));
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED && mprotect(pages, 4096, PROT_READ) == 0);
	unsigned long sum = 0;
	for (unsigned long round = 1; round <= 1000; round++)
		sum += save(area, round * 3) == round * 3;
	say("%lu of 1000", sum);
	// The header names the same parts each time.
	unsigned long named = 0, first = 0;
	for (int round = 0; round < 1000; round++) {
		unsigned long now;
		save(area, 5);
		memcpy(&now, area + 512, 8);
		first = round ? first : now;
		named += now == first;
	}
	nondet("parts %lx, %lu times", first, named);
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	// There are processors that write some of it before they look at the rest.
	faults("read-only", pages);
	faults("unmapped", (char *)BAD - 8);
	faults("misaligned", area + 8);
	say("%lu", save(area, 7));
	signal(SIGUSR1, on_user);
	__asm__ volatile("vzeroupper");
	unsigned before = upper_halves();
	save(area, 9);
	unsigned saved = upper_halves() & ~before;
	raise(SIGUSR1);
	say("%x %x", saved, upper_halves() & ~before);
	return 0;
}
