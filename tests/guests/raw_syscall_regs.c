// After a syscall instruction rax holds the result, rcx the next address, r11 the flags;
// every other register and the flags are as before.
// covers: getppid getpid write
#include "guest.h"

struct registers {
	uint64_t rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, flags, rax, next;
};

void call_with_registers(long number, struct registers *before, struct registers *after);

__asm__(".text\n"
	".globl call_with_registers\n"
	"call_with_registers:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	push %rdx\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rcx\n"
	"	pushq 112(%rcx)\n	popfq\n"
	"	mov 0(%rcx), %rbx\n	mov 16(%rcx), %rdx\n	mov 24(%rcx), %rsi\n"
	"	mov 32(%rcx), %rdi\n	mov 40(%rcx), %rbp\n	mov 48(%rcx), %r8\n"
	"	mov 56(%rcx), %r9\n	mov 64(%rcx), %r10\n	mov 72(%rcx), %r11\n"
	"	mov 80(%rcx), %r12\n	mov 88(%rcx), %r13\n	mov 96(%rcx), %r14\n"
	"	mov 104(%rcx), %r15\n"
	"	syscall\n"
	"1:	pushfq\n"
	"	push %rcx\n"
	"	mov 16(%rsp), %rcx\n"
	"	mov %rax, 120(%rcx)\n"
	"	popq 8(%rcx)\n	popq 112(%rcx)\n"
	"	mov %rbx, 0(%rcx)\n	mov %rdx, 16(%rcx)\n	mov %rsi, 24(%rcx)\n"
	"	mov %rdi, 32(%rcx)\n	mov %rbp, 40(%rcx)\n	mov %r8, 48(%rcx)\n"
	"	mov %r9, 56(%rcx)\n	mov %r10, 64(%rcx)\n	mov %r11, 72(%rcx)\n"
	"	mov %r12, 80(%rcx)\n	mov %r13, 88(%rcx)\n	mov %r14, 96(%rcx)\n"
	"	mov %r15, 104(%rcx)\n"
	"	lea 1b(%rip), %rax\n	mov %rax, 128(%rcx)\n"
	"	pop %rdx\n"
	"	cld\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n"
	"	ret\n");

// Carry, parity, adjust, zero, sign, overflow and direction.
#define FLAGS_SEEN 0xcd5ul

static void check(long number, uint64_t flags, uint64_t rdi, uint64_t rsi, uint64_t rdx, long expected)
{
	struct registers before, after;
	for (size_t i = 0; i < sizeof before / 8; i++)
		((uint64_t *)&before)[i] = 0x1111111111111111u * i + number;
	before.flags = flags | 0x202;
	before.rdi = rdi;
	before.rsi = rsi;
	before.rdx = rdx;
	memset(&after, 0, sizeof after);
	call_with_registers(number, &before, &after);
	CHECK((long)after.rax == expected);
	CHECK(after.rbx == before.rbx && after.rdx == before.rdx && after.rsi == before.rsi);
	CHECK(after.rdi == before.rdi && after.rbp == before.rbp && after.r8 == before.r8);
	CHECK(after.r9 == before.r9 && after.r10 == before.r10 && after.r12 == before.r12);
	CHECK(after.r13 == before.r13 && after.r14 == before.r14 && after.r15 == before.r15);
	CHECK((after.flags & FLAGS_SEEN) == (flags & FLAGS_SEEN));
	CHECK(after.rcx == after.next);
	CHECK((after.r11 & FLAGS_SEEN) == (flags & FLAGS_SEEN));
}

int main(void)
{
	static const uint64_t flags[] = {0, 1, 4, 0x10, 0x40, 0x80, 0x400, 0x800, FLAGS_SEEN};
	long parent = getppid(), me = getpid();
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
			check(SYS_getppid, flags[i], 1, 2, 3, parent);
			check(SYS_getpid, flags[i], 1, 2, 3, me);
			check(SYS_close, flags[i], 12345, 2, 3, -EBADF);
			check(SYS_lseek, flags[i], (uint64_t)-1, 0, 0, -EBADF);
			check(SYS_write, flags[i], 1, (uintptr_t) "", 0, 0);
			check(9999, flags[i], 1, 2, 3, -ENOSYS);
			check(-1, flags[i], 1, 2, 3, -ENOSYS);
		}
	}
	say("registers are as they should be");
	return 0;
}
