// Generated code that reads a constant of its own instructions, as those who generate code read the
// references in it, while signals come: a replay that hides the constant shows.
// covers: mmap setitimer rt_sigaction rt_sigreturn
#include "ticks.h"
#include <sys/mman.h>

enum { TICKS = 12, CONSTANT_AT = 2 };

static const unsigned char LOOP[] = {
	0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, // 0: movabs $..., %rax
	0x48, 0x8b, 0x15, 0xf1, 0xff, 0xff, 0xff, // mov CONSTANT_AT(%rip), %rdx
	0x48, 0x39, 0xc2, // cmp %rax, %rdx
	0x75, 11, // jne 1f
	0x48, 0xff, 0x07, // incq (%rdi)
	0x83, 0x3e, TICKS, // cmpl $TICKS, (%rsi)
	0x7c, 0xe2, // jl 0b
	0x31, 0xc0, // xor %eax, %eax
	0xc3, // ret
	0x48, 0x29, 0xd0, // 1: sub %rdx, %rax
	0xc3, // ret
};

int main(void)
{
	unsigned char *code =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(code != MAP_FAILED);
	memcpy(code, LOOP, sizeof LOOP);
	long (*loop)(long *, volatile int *) = (void *)code;
	long rounds = 0;
	start_ticks();
	long difference = loop(&rounds, &ticks);
	nondet("%ld rounds", rounds);
	say("what the loop read differs by %ld", difference);
	long constant;
	memcpy(&constant, code + CONSTANT_AT, sizeof constant);
	say("it reads %lx", constant);
	return 0;
}
