// Handlers on a stack of their own, also for overflow of the ordinary stack.
// covers: sigaltstack
#include "guest.h"
#include <setjmp.h>
#include <sys/resource.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static char alternate[65536];
static sigjmp_buf out;
static volatile int on_alternate;

static void handler(int number)
{
	char here;
	uintptr_t at = (uintptr_t)&here;
	stack_t now;
	on_alternate = at >= (uintptr_t)alternate && at < (uintptr_t)alternate + sizeof alternate;
	CHECK(sigaltstack(NULL, &now) == 0);
	say("signal %d: on the alternate stack %d, flags %d", number, on_alternate, now.ss_flags);
	if (number == SIGSEGV)
		siglongjmp(out, 1);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) static int overflow(int depth)
{
	volatile char block[4096];
	block[0] = depth;
	return overflow(depth + 1) + block[0];
}

int main(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
	struct rlimit limit = {1 << 20, 1 << 20};
	CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
	CHECK(sigaltstack(&stack, &old) == 0);
	say("before: flags %d", old.ss_flags);
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
	raise(SIGUSR1);
	action.sa_flags = 0;
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
	raise(SIGUSR2);
	if (sigsetjmp(out, 1) == 0)
		return overflow(0);
	say("survived overflow");
	stack.ss_flags = SS_AUTODISARM;
	outcome("SS_AUTODISARM", sigaltstack(&stack, NULL));
	raise(SIGUSR1);
	CHECK(sigaltstack(NULL, &old) == 0);
	say("after: flags %x", old.ss_flags);
	stack.ss_flags = SS_DISABLE;
	CHECK(sigaltstack(&stack, NULL) == 0);
	stack = (stack_t){.ss_sp = alternate, .ss_size = 100};
	CHECK_ERR(sigaltstack(&stack, NULL), ENOMEM);
	raise(SIGUSR1);
	return 0;
}
