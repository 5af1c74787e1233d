// Flags of the processor that a program may set, around calls, instructions whose results come from outside,
// and signals: alignment check, direction, nested task, identification; rounding and exceptions of
// floating-point arithmetic. What runs for the program in between has its own.
// covers: getppid rt_sigaction rt_sigreturn clock_gettime setitimer read
// build: -frounding-math -lm
#include "guest.h"
#include <fenv.h>
#include <math.h>
#include <sys/time.h>
#include <ucontext.h>
#include <x86intrin.h>

#define ALIGNMENT 0x40000ul
#define DIRECTION 0x400ul
#define NESTED 0x4000ul
#define IDENTIFICATION 0x200000ul

static char bytes[16] __attribute__((aligned(16))) = { 1, 2, 3, 4, 5, 6 };

static unsigned long flags_now(void)
{
	unsigned long flags;
	__asm__ volatile("pushfq\n\tpop %0" : "=r"(flags));
	return flags;
}

// Makes a call with these flags; what the flags are behind it.
static __attribute__((noinline)) unsigned long call_with(unsigned long more, long number, long *result)
{
	unsigned long behind, r = (unsigned long)number;
	__asm__ volatile("pushfq\n\t"
			 "orq %2, (%%rsp)\n\t"
			 "popfq\n\t"
			 "syscall\n\t"
			 "pushfq\n\t"
			 "pop %1\n\t"
			 "pushfq\n\t"
			 "andq $~0x44400, (%%rsp)\n\t"
			 "popfq"
			 : "+a"(r), "=&r"(behind)
			 : "r"(more)
			 : "rcx", "r11", "memory", "cc");
	*result = (long)r;
	return behind;
}

static volatile int caught, alignment_in_handler, direction_in_handler;

static void on_misaligned(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	caught += number == SIGBUS && info->si_code == BUS_ADRALN;
	// The kernel leaves this one to the handler.
	alignment_in_handler += (flags_now() & ALIGNMENT) != 0;
	interrupted->uc_mcontext.gregs[REG_EFL] &= ~(long)ALIGNMENT;
}

static void on_alarm(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	(void)info;
	caught += number == SIGALRM;
	direction_in_handler += (flags_now() & DIRECTION) != 0;
	alignment_in_handler += (interrupted->uc_mcontext.gregs[REG_EFL] & (long)ALIGNMENT) != 0;
}

static void misaligned_access(void)
{
	struct sigaction action = { .sa_sigaction = on_misaligned, .sa_flags = SA_SIGINFO };
	CHECK(sigaction(SIGBUS, &action, NULL) == 0);
	caught = alignment_in_handler = 0;
	for (int i = 0; i < 3; i++) {
		int word;
		__asm__ volatile("pushfq\n\torl $0x40000, (%%rsp)\n\tpopfq\n\tmov 1(%1), %0"
				 : "=r"(word)
				 : "r"(bytes)
				 : "memory", "cc");
		CHECK(word == 0x05040302);
	}
	say("%d misaligned, the check was on in %d handlers", caught, alignment_in_handler);
}

// Computes with these flags until a signal has come.
static void compute_with(unsigned long more)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO };
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	caught = alignment_in_handler = direction_in_handler = 0;
	struct itimerval soon = { .it_value = { 0, 20000 } };
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	unsigned long rounds = 0;
	__asm__ volatile("pushfq\n\t"
			 "orq %2, (%%rsp)\n\t"
			 "popfq\n"
			 "1:\n\t"
			 "inc %0\n\t"
			 "cmpl $0, %1\n\t"
			 "je 1b\n\t"
			 "pushfq\n\t"
			 "andq $~0x40400, (%%rsp)\n\t"
			 "popfq"
			 : "+r"(rounds)
			 : "m"(caught), "r"(more)
			 : "memory", "cc");
	CHECK(rounds > 0);
	say("one alarm: %d, check seen in the frame %d, direction in the handler %d", caught,
	    alignment_in_handler, direction_in_handler);
}

static volatile double third_in_handler;
static volatile int rounding_in_handler, control_in_handler;
static volatile unsigned mxcsr_in_handler;
static volatile double one = 1, three = 3;

static __attribute__((noinline)) double third(void)
{
	double result = one / three;
	__asm__ volatile("" : "+x"(result) : : "memory");
	return result;
}

static void on_user(int number)
{
	(void)number;
	unsigned short control;
	__asm__ volatile("fnstcw %0" : "=m"(control));
	control_in_handler = control;
	mxcsr_in_handler = _mm_getcsr();
	rounding_in_handler = fegetround();
	third_in_handler = third();
	fesetround(FE_DOWNWARD);
}

static void rounding(void)
{
	struct sigaction action = { .sa_handler = on_user };
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(fesetround(FE_UPWARD) == 0);
	_mm_setcsr(_mm_getcsr() | 0x8040);
	double before = third();
	CHECK(raise(SIGUSR1) == 0);
	double behind = third();
	unsigned mxcsr = _mm_getcsr() & ~0x3fu;
	int mode = fegetround();
	fesetround(FE_TONEAREST);
	_mm_setcsr(0x1f80);
	say("%a, in the handler %a, %a", before, third_in_handler, behind);
	say("modes %x, %x; mxcsr %x, %x; control word %x", mode, rounding_in_handler, mxcsr,
	    mxcsr_in_handler & ~0x3fu, control_in_handler);
}

int main(void)
{
	static const unsigned long sets[] = { ALIGNMENT, DIRECTION, NESTED, IDENTIFICATION,
					      ALIGNMENT | DIRECTION | NESTED };
	for (unsigned i = 0; i < sizeof sets / sizeof *sets; i++)
		for (int round = 0; round < 3; round++) {
			long parent;
			unsigned long behind = call_with(sets[i], SYS_getppid, &parent);
			CHECK(parent == getppid());
			CHECK((behind & sets[i]) == sets[i]);
		}
	say("calls with flags set");
	misaligned_access();
	compute_with(ALIGNMENT);
	compute_with(DIRECTION);
	compute_with(ALIGNMENT | DIRECTION);
	rounding();
	return 0;
}
