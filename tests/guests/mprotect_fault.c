// Protection changes and the faults they cause, as garbage collectors use them.
// covers: mprotect pkey_mprotect pkey_alloc pkey_free
#include "guest.h"
#include <sys/mman.h>

static char *pages;
static int faults;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	CHECK(number == SIGSEGV);
	char *page = (char *)((uintptr_t)info->si_addr & ~4095ul);
	CHECK(page >= pages && page < pages + 64 * 4096);
	faults += 1 + (info->si_code == SEGV_ACCERR);
	CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

int main(void)
{
	pages = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	for (int i = 0; i < 64; i++)
		((volatile char *)pages)[i * 4096 + i] = i;
	say("faults %d", faults);
	CHECK(mprotect(pages, 64 * 4096, PROT_READ) == 0);
	int sum = 0;
	for (int i = 0; i < 64; i++)
		sum += ((volatile char *)pages)[i * 4096 + i];
	say("sum %d faults %d", sum, faults);
	for (int i = 0; i < 64; i += 2)
		((volatile char *)pages)[i * 4096]++;
	say("faults %d", faults);
	CHECK_ERR(mprotect(pages + 1, 4096, PROT_READ), EINVAL);
	CHECK(munmap(pages + 10 * 4096, 4096) == 0);
	CHECK_ERR(mprotect(pages, 64 * 4096, PROT_READ), ENOMEM);
	int key = syscall(SYS_pkey_alloc, 0, 0);
	nondet_outcome("pkey_alloc", key);
	nondet_outcome("pkey_mprotect", syscall(SYS_pkey_mprotect, pages, 4096, PROT_READ, -1));
	if (key >= 0)
		nondet_outcome("pkey_free", syscall(SYS_pkey_free, key));
	else
		nondet_outcome("pkey_free", syscall(SYS_pkey_free, 5));
	return 0;
}
