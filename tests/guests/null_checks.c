// Null checks as a JIT makes them: the load faults, and the handler moves the program on.
// covers: rt_sigaction rt_sigreturn
#include "threads.h"
#include <ucontext.h>

struct object {
	long field;
};

static atomic_int faults;

// rax = *rdi, or -1 where that faults; the two labels are the JIT's table of faults.
long load_checked(const struct object *object);
extern const char load_instruction[], load_of_null[];
__asm__("load_checked:\n"
	".globl load_instruction\n"
	"load_instruction:\n"
	"	mov (%rdi), %rax\n"
	"	ret\n"
	".globl load_of_null\n"
	"load_of_null:\n"
	"	mov $-1, %rax\n"
	"	ret\n");

static void on_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;
	CHECK(number == SIGSEGV && info->si_addr == NULL);
	CHECK(at->uc_mcontext.gregs[REG_RIP] == (greg_t)(uintptr_t)load_instruction);
	at->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)load_of_null;
	atomic_fetch_add(&faults, 1);
}

static void *load_many(void *argument)
{
	struct object object = {.field = (long)argument};
	long sum = 0, nulls = 0;
	for (int i = 0; i < 4000; i++) {
		long got = load_checked(i % 4 == 3 ? (struct object *)hidden(0) : &object);
		if (got == -1)
			nulls++;
		else
			sum += got;
	}
	return (void *)(sum * 10000 + nulls);
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	pthread_t threads[2] = {start(load_many, (void *)1), start(load_many, (void *)2)};
	for (int i = 0; i < 2; i++)
		say("thread %d: %ld", i, join(threads[i]));
	say("faults %d", atomic_load(&faults));
	return 0;
}
