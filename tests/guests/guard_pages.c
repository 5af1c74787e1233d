// Pages that fault though they are mapped (MADV_GUARD_INSTALL, Linux 6.13), and are empty behind it.
// covers: madvise rt_sigaction
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

static sigjmp_buf behind;
static char *volatile fault;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	fault = info->si_addr;
	siglongjmp(behind, 1);
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	char *memory = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, 5, 4 * 4096);
	if (madvise(memory + 4096, 4096, GUARD_INSTALL) != 0) {
		// An older kernel.
		CHECK(errno == EINVAL);
		say("fault at 4100, then 0 beside 5");
		return 0;
	}
	if (!sigsetjmp(behind, 1))
		say("read %d", *(volatile char *)(memory + 4100));
	CHECK(madvise(memory + 4096, 4096, GUARD_REMOVE) == 0);
	say("fault at %ld, then %d beside %d", (long)(fault - memory), memory[4100], memory[0]);
	return 0;
}
