// Signals into a loop of floating-point instructions: their handler, and the program behind the loop,
// look where the last of these was, which processors of Intel keep.
// covers: setitimer rt_sigaction rt_sigreturn
#include "ticks.h"
#include <ucontext.h>

enum { TICKS = 4 };

static volatile unsigned long long places[TICKS];

static void look(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	const ucontext_t *interrupted = context;
	if (ticks < TICKS)
		places[ticks] = interrupted->uc_mcontext.fpregs->rip;
	ticks++;
}

static void in_float(void)
{
	uint32_t environment[7];
	long double sum = 0;
	ticks = 0;
	__asm__ volatile("1:\tfld1\n\t"
			 "faddp\n\t"
			 "cmpl %[wanted], %[ticks]\n\t"
			 "jl 1b\n\t"
			 "fnstenv %[environment]"
			 : [sum] "+t"(sum), [environment] "=m"(environment)
			 : [ticks] "m"(ticks), [wanted] "i"(TICKS)
			 : "st(7)", "cc", "memory");
	nondet("sum %.0Lf, last at %x", sum, environment[3]);
}

int main(void)
{
	start_ticks();
	struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	for (int i = 0; i < 3; i++) {
		in_float();
		for (int tick = 0; tick < TICKS; tick++)
			nondet("place %llx", places[tick]);
	}
	say("looked");
	return 0;
}
