// What a frame says of a fault: error code, trap number, address.
// covers: rt_sigaction rt_sigreturn
// build: -Wno-array-bounds
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

static sigjmp_buf back;

static void on_fault(int number, siginfo_t *info, void *context)
{
	greg_t *words = ((ucontext_t *)context)->uc_mcontext.gregs;
	say("signal %d code %d error %#llx trap %lld address %s", number, info->si_code,
	    words[REG_ERR], words[REG_TRAPNO],
	    words[REG_CR2] == (greg_t)info->si_addr ? "same" : "other");
	if (number != SIGUSR1)
		siglongjmp(back, 1);
}

static void fault(int which, volatile char *read_only)
{
	switch (which) {
	case 0:
		*(volatile int *)16 = 1;
		break;
	case 1:
		(void)*(volatile int *)32;
		break;
	case 2:
		(void)*read_only;
		*read_only = 1;
		break;
	case 3:
		(void)*(volatile int *)0x800000000000;
		break;
	case 4:
		__asm__ volatile("ud2");
		break;
	case 5:
		__asm__ volatile("int3");
		break;
	default:
		__asm__ volatile("xorl %%eax, %%eax; cltd; divl %%eax" ::: "eax", "edx");
	}
}

int main(void)
{
	int numbers[] = {SIGSEGV, SIGILL, SIGTRAP, SIGFPE, SIGUSR1};
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	for (int i = 0; i < 5; i++)
		sigaction(numbers[i], &action, NULL);
	char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int which = 0; which < 7; which++)
		if (sigsetjmp(back, 1) == 0)
			fault(which, page);
	raise(SIGUSR1); // the words of the last fault stay
	return 0;
}
