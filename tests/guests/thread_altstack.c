// Each thread has a signal stack of its own, on which it survives the overflow of its stack.
// covers: sigaltstack rt_sigreturn
#include "threads.h"
#include <setjmp.h>

#define ALTERNATE_BYTES 65536

static __thread char *alternate;
static __thread sigjmp_buf out;

static void on_overflow(int number)
{
	char here;
	CHECK(number == SIGSEGV);
	CHECK(&here >= alternate && &here < alternate + ALTERNATE_BYTES);
	siglongjmp(out, 1);
}

static void on_usr1(int number)
{
	char here;
	stack_t now;
	(void)number;
	CHECK(&here >= alternate && &here < alternate + ALTERNATE_BYTES);
	CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK && now.ss_sp == alternate);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) static int overflow(int depth)
{
	volatile char block[4096];
	block[0] = (char)depth;
	return overflow(depth + 1) + block[0];
}

static void *overflow_own_stack(void *argument)
{
	volatile long survived = 0;
	stack_t now;
	CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_DISABLE && argument == NULL);
	alternate = malloc(ALTERNATE_BYTES);
	stack_t stack = {.ss_sp = alternate, .ss_size = ALTERNATE_BYTES}, none = {.ss_flags = SS_DISABLE};
	CHECK(sigaltstack(&stack, NULL) == 0);
	for (volatile int i = 0; i < 3; i++) {
		CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
		if (sigsetjmp(out, 1) == 0)
			return (void *)(long)overflow(0);
		survived++;
	}
	CHECK(sigaltstack(&none, NULL) == 0);
	free(alternate);
	return (void *)survived;
}

int main(void)
{
	pthread_attr_t attributes;
	pthread_t threads[4];
	handle(SIGSEGV, on_overflow, SA_ONSTACK);
	handle(SIGUSR1, on_usr1, SA_ONSTACK);
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setstacksize(&attributes, 128 << 10) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], &attributes, overflow_own_stack, NULL) == 0);
	for (int i = 0; i < 4; i++)
		say("thread %d survived %ld", i, join(threads[i]));
	return 0;
}
