// Code that no file holds sets the gs base, to where nothing is; calls and faults follow.
// needs: cpu:fsgsbase
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf back;

static void on_fault(int signal)
{
	siglongjmp(back, signal);
}

// wrgsbase %rdi; ret
static const unsigned char sets_base[] = {0xf3, 0x48, 0x0f, 0xae, 0337, 0xc3};
// rdgsbase %rax; ret
static const unsigned char gets_base[] = {0xf3, 0x48, 0x0f, 0xae, 0310, 0xc3};

int main(void)
{
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(code != MAP_FAILED);
	// The opcodes are put together here: nowhere in the file they look like code.
	memcpy(code, sets_base, sizeof sets_base);
	memcpy(code + 16, gets_base, sizeof gets_base);
	void (*set_base)(uint64_t) = (void (*)(uint64_t))(uintptr_t)code;
	uint64_t (*base)(void) = (uint64_t(*)(void))(uintptr_t)(code + 16);
	CHECK(signal(SIGSEGV, on_fault) != SIG_ERR);
	pid_t parent = getppid();
	for (int i = 0; i < 100; i++)
		CHECK(getppid() == parent);
	for (uint64_t i = 0; i < 50; i++) {
		set_base(hidden(0x123456000 + i * 4096));
		CHECK(getppid() == parent);
		CHECK(base() == 0x123456000 + i * 4096);
	}
	int signal = sigsetjmp(back, 1);
	if (signal == 0) {
		uint64_t value;
		__asm__ volatile("movq %%gs:16, %0" : "=r"(value)::"memory");
		say("read %lx", value);
	}
	say("signal %d, base %lx", signal, base());
	set_base(0);
	say("base %lx", base());
	return 0;
}
