// Synchronous faults with handlers that repair the cause or move the instruction pointer.
// covers: rt_sigreturn
#include "guest.h"
#include <sys/mman.h>
#include <ucontext.h>

static volatile int divisions, traps, illegal, breakpoints, nulls;

static void on_fpe(int number, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	(void)number;
	CHECK(info->si_code == FPE_INTDIV);
	divisions++;
	u->uc_mcontext.gregs[REG_RCX] = 7; // The divisor of the instruction below.
}

static void on_ill(int number, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	(void)number;
	CHECK((greg_t)(uintptr_t)info->si_addr == u->uc_mcontext.gregs[REG_RIP]);
	illegal++;
	u->uc_mcontext.gregs[REG_RIP] += 2;
	u->uc_mcontext.gregs[REG_RAX] = 1234;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	(void)number;
	if (u->uc_mcontext.gregs[REG_EFL] & 0x100) {
		traps++;
		if (traps == 8)
			u->uc_mcontext.gregs[REG_EFL] &= ~0x100;
	} else {
		breakpoints++;
		CHECK(info->si_code == SI_KERNEL);
	}
}

static void on_segv(int number, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	(void)number;
	nulls++;
	CHECK((uintptr_t)info->si_addr == 0x18);
	u->uc_mcontext.gregs[REG_RIP] += 3; // The length of the load below.
	u->uc_mcontext.gregs[REG_RDX] = 99;
}

static void install(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(number, &action, NULL) == 0);
}

int main(void)
{
	install(SIGFPE, on_fpe);
	install(SIGILL, on_ill);
	install(SIGTRAP, on_trap);
	install(SIGSEGV, on_segv);
	long quotient, rest, result;
	for (int i = 0; i < 10; i++) {
		__asm__ volatile("xorl %%ecx, %%ecx\n\tidivq %%rcx"
				 : "=a"(quotient), "=d"(rest)
				 : "0"(100l), "1"(0l)
				 : "rcx", "cc");
		CHECK(quotient == 14 && rest == 2);
	}
	__asm__ volatile("ud2" : "=a"(result));
	CHECK(result == 1234);
	__asm__ volatile("int3");
	for (int i = 0; i < 100; i++) {
		long base = 0x10;
		__asm__ volatile(".byte 0x8b, 0x50, 0x08" : "=d"(result) : "a"(base) : "memory");
		CHECK(result == 99);
	}
	__asm__ volatile("subq $128, %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "nop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\t"
			 "addq $128, %%rsp"
			 :
			 :
			 : "cc", "memory");
	say("divisions %d illegal %d breakpoints %d steps %d null checks %d", divisions, illegal,
	    breakpoints, traps, nulls);
	return 0;
}
