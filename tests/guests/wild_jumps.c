// Jumps to where nothing is, nothing may be executed, or a file ends, are caught by handlers, as are
// forbidden instructions at the end of a page. The last jump, to NULL, is fatal.
// covers: rt_sigaction rt_sigreturn
// expect: signal 11
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

#define PAGE 4096

static sigjmp_buf back;
static char *wanted;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	int named = info->si_addr == wanted;
	say("signal %d code %d%s", number, info->si_code, named ? " at the target" : "");
	siglongjmp(back, 1);
}

static void jump(const char *what, char *where)
{
	say("%s", what);
	wanted = where;
	if (sigsetjmp(back, 1) == 0)
		((void (*)(void))where)();
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED);
	char *code = pages + PAGE;
	code[PAGE - 1] = (char)0xf4; // hlt
	code[PAGE - 4] = (char)0x0f; // ud2
	code[PAGE - 3] = 0x0b;
	CHECK(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
	CHECK(mprotect(pages, PAGE, PROT_NONE) == 0);
	int file = open("cut", O_RDWR | O_CREAT | O_TRUNC, 0700);
	CHECK(file >= 0 && ftruncate(file, PAGE) == 0);
	char *cut = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	CHECK(cut != MAP_FAILED && ftruncate(file, 0) == 0);
	CHECK(munmap(pages + 3 * PAGE, PAGE) == 0);
	for (int round = 0; round < 3; round++) {
		jump("NULL", NULL);
		jump("a small number", (char *)8);
		jump("no access", pages + 100);
		jump("the end of no access", pages + PAGE - 1);
		jump("not executable", code + PAGE);
		jump("unmapped", pages + 3 * PAGE);
		jump("no address", (char *)0x4141414141414141);
		jump("the kernel's", (char *)0xffff800000000000);
		jump("behind the end of a file", cut);
		jump("an instruction that only the kernel may use, at the end", code + PAGE - 1);
		jump("an invalid one, near the end", code + PAGE - 4);
	}
	CHECK(unlink("cut") == 0);
	signal(SIGSEGV, SIG_DFL);
	void (*volatile nothing)(void) = NULL;
	nothing();
	return 0;
}
