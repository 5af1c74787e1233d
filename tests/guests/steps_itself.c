// A program steps through itself with the trap flag, through its own code, calls, and instructions whose
// results come from outside.
// covers: rt_sigaction rt_sigreturn getppid write clock_gettime
#include "guest.h"
#include <sys/syscall.h>
#include <ucontext.h>
#include <x86intrin.h>

#define TRAP_FLAG 0x100ll

static volatile sig_atomic_t goes_on;
static volatile unsigned long steps, places;

static void begin(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	ucontext_t *interrupted = context;
	interrupted->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void step(int number, siginfo_t *info, void *context)
{
	(void)number;
	ucontext_t *interrupted = context;
	CHECK(info->si_code == TRAP_TRACE || info->si_code == TRAP_BRKPT);
	steps++;
	places = places * 31 + ((unsigned long)interrupted->uc_mcontext.gregs[REG_RIP] & 0xfff);
	if (!goes_on)
		interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static __attribute__((noinline)) unsigned compute(unsigned rounds)
{
	unsigned x = 1;
	for (unsigned i = 0; i < rounds; i++)
		x = x * 3 + i;
	return x;
}

// How many steps something takes, beside those of beginning and ending.
#define STEPS_OF(what)                             \
	({                                         \
		unsigned long before = steps;      \
		goes_on = 1;                       \
		CHECK(raise(SIGUSR1) == 0);        \
		what;                              \
		goes_on = 0;                       \
		__asm__ volatile("nop; nop; nop"); \
		steps - before;                    \
	})

int main(void)
{
	struct sigaction action = { .sa_sigaction = begin, .sa_flags = SA_SIGINFO };
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	action.sa_sigaction = step;
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	volatile unsigned x = 0;
	unsigned long nothing = STEPS_OF((void)0), ten = STEPS_OF(x = compute(10));
	unsigned long twenty = STEPS_OF(x = compute(20)), thirty = STEPS_OF(x = compute(30));
	CHECK(x == compute(30) && nothing > 0 && ten > nothing);
	say("%lu steps, and %lu for ten rounds more", twenty - ten, thirty - twenty);
	long parent = 0;
	unsigned long calls = 0;
	for (int i = 0; i < 5; i++)
		calls += STEPS_OF(parent += syscall(SYS_getppid));
	CHECK(parent == 5 * getppid());
	say("stepped through calls");
	struct timespec now;
	unsigned long time = STEPS_OF(clock_gettime(CLOCK_MONOTONIC, &now));
	unsigned long long counter = 0;
	time += STEPS_OF(counter = __rdtsc());
	CHECK(counter != 0);
	say("and reads of the time");
	nondet("%lu %lu %lx", calls, time, places);
	return 0;
}
