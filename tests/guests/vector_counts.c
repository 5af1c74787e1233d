// Signals into loops of which only a vector register, or one word of memory, tells one round
// from the next.
// covers: setitimer rt_sigaction rt_sigreturn
#include "ticks.h"

enum { TICKS = 4 };

static uint64_t in_memory;
static const uint64_t ONE[2] __attribute__((aligned(16))) = {1, 0};

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	_exit(98);
}

// The register counts; another one is zero every second time.
#define COUNT_IN(counting, toggling)                                                       \
	do {                                                                               \
		uint64_t out[2], other[2];                                                 \
		ticks = 0;                                                                 \
		__asm__ volatile("pxor %%" counting ", %%" counting "\n\t"                 \
				 "1:\tmov %[ticks], %%eax\n\t"                             \
				 "paddq %[one], %%" counting "\n\t"                        \
				 "movdqa %%" counting ", %%" toggling "\n\t"               \
				 "pand %[one], %%" toggling "\n\t"                         \
				 "cmp %[wanted], %%eax\n\t"                                \
				 "jl 1b\n\t"                                               \
				 "movdqu %%" counting ", %[out]\n\t"                       \
				 "movdqu %%" toggling ", %[other]"                         \
				 : [out] "=m"(out), [other] "=m"(other)                    \
				 : [ticks] "m"(ticks), [one] "m"(ONE), [wanted] "i"(TICKS) \
				 : "eax", counting, toggling, "cc", "memory");             \
		nondet(counting " %lu, " toggling " %lu", (unsigned long)out[0],           \
		       (unsigned long)other[0]);                                           \
	} while (0)

static void count_all(void)
{
	COUNT_IN("xmm0", "xmm1");
	COUNT_IN("xmm7", "xmm8");
	COUNT_IN("xmm8", "xmm7");
	COUNT_IN("xmm15", "xmm0");
	ticks = 0;
	__asm__ volatile("1:\tmov %[ticks], %%eax\n\t"
			 "incq %[count]\n\t"
			 "cmp %[wanted], %%eax\n\t"
			 "jl 1b"
			 : [count] "+m"(in_memory)
			 : [ticks] "m"(ticks), [wanted] "i"(TICKS)
			 : "eax", "cc", "memory");
	nondet("in memory %lu", (unsigned long)in_memory);
}

int main(void)
{
	start_ticks();
	count_all();
	// Who sees faults sees the flags, too.
	struct sigaction faults = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &faults, NULL) == 0);
	count_all();
	say("counted");
	return 0;
}
