// What a program may do to its segment registers and flags, with faults and calls behind it.
// covers: rt_sigaction
#include "guest.h"
#include <cpuid.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <ucontext.h>

static sigjmp_buf back;

static void on_fault(int signal)
{
	siglongjmp(back, signal);
}

static void call(void)
{
	say("pid is mine: %d", syscall(SYS_getpid) == getpid());
}

static void fault(void)
{
	*(volatile int *)BAD = 1;
}

static void null_gs(void)
{
	__asm__ volatile("mov %0, %%gs" ::"r"(0));
}

static void data_gs(void)
{
	__asm__ volatile("mov %0, %%gs" ::"r"(0x2b));
}

static void write_gs(void)
{
	__asm__ volatile("wrgsbase %0" ::"r"(hidden(0)));
}

static void far_gs(void)
{
	__asm__ volatile("wrgsbase %0" ::"r"(hidden(0x123456000)));
}

static void backwards(void)
{
	__asm__ volatile("std");
}

static void nested_task(void)
{
	__asm__ volatile("pushfq\n\torq $0x4000, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

static void normal(void)
{
	__asm__ volatile("cld\n\tpushfq\n\tandq $~0x4000, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

// With plain instructions only in between: printf may not survive the state.
static void attempt(const char *name, void (*spoil)(void), int faults)
{
	volatile long pid = 0;
	int signal = sigsetjmp(back, 1);
	if (signal == 0) {
		spoil();
		if (faults) {
			fault();
		} else {
			long own;
			__asm__ volatile("syscall" : "=a"(own) : "a"(SYS_getpid) : "rcx", "r11", "memory");
			pid = own;
		}
	}
	normal();
	say("%s, %s: signal %d, pid %d", name, faults ? "fault" : "call", signal, pid == getpid());
}

int main(void)
{
	static char stack[65536];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
	CHECK(sigaltstack(&other, NULL) == 0);
	struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
	int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};
	for (int i = 0; i < 4; i++)
		CHECK(sigaction(signals[i], &action, NULL) == 0);
	call();
	int has_base = (getauxval(AT_HWCAP2) & 2) != 0;
	for (int faults = 0; faults < 2; faults++) {
		attempt("gs of nothing", null_gs, faults);
		attempt("gs of data", data_gs, faults);
		if (has_base) {
			attempt("gs at 0", write_gs, faults);
			attempt("gs elsewhere", far_gs, faults);
		}
		attempt("backwards", backwards, faults);
		attempt("nested task", nested_task, faults);
	}
	return 0;
}
