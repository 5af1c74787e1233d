// syscall instructions where a jump of five bytes does not simply fit.
// covers: getpid getppid
#include "guest.h"
#include <sys/mman.h>

long site_then_ret(long number);
long site_is_target(long number, long times);
long two_sites(long first, long second);
long jump_right_behind(long number, long condition);
long at_end_of_page(long number);
long with_rip_relative(long number);
long call_behind(long number);
long through_table(long number, long which);

__asm__(".text\n"
	".globl site_then_ret\n"
	"site_then_ret: mov %rdi, %rax\n	syscall\n	ret\n"
	// A loop whose head is the syscall itself.
	".globl site_is_target\n"
	"site_is_target: xor %r8d, %r8d\n	mov %rdi, %rax\n"
	"1:	syscall\n	add %rax, %r8\n	mov %rdi, %rax\n	dec %rsi\n	jnz 1b\n"
	"	mov %r8, %rax\n	ret\n"
	".globl two_sites\n"
	"two_sites: mov %rdi, %rax\n	syscall\n	xchg %rax, %rsi\n	syscall\n	sub %rsi, %rax\n	ret\n"
	// The instruction behind is a jump target from elsewhere.
	".globl jump_right_behind\n"
	"jump_right_behind: mov %rdi, %rax\n	test %rsi, %rsi\n	jnz 2f\n	syscall\n"
	"2:	inc %rax\n	ret\n"
	// The relocated neighbour addresses memory relative to its own address.
	".globl with_rip_relative\n"
	"with_rip_relative: mov %rdi, %rax\n	syscall\n	mov 3f(%rip), %rdx\n"
	"	add %rdx, %rax\n	sub %rdx, %rax\n	ret\n	.balign 8\n3:	.quad 0x123456789\n"
	// The neighbour is a call: its return address must be the original one.
	".globl call_behind\n"
	"call_behind: mov %rdi, %rax\n	syscall\n	call 5f\n4:	ret\n"
	"5:	lea 4b(%rip), %rcx\n	cmp %rcx, (%rsp)\n	je 6f\n	mov $-1, %rax\n6:	ret\n"
	// Entries of a table point at the syscall and behind it.
	".globl through_table\n"
	"through_table: mov %rdi, %rax\n	lea 7f(%rip), %rdx\n"
	"	movslq (%rdx,%rsi,4), %rcx\n	add %rdx, %rcx\n	jmp *%rcx\n"
	"8:	syscall\n9:	nop\n	inc %rax\n	ret\n"
	"	.section .rodata\n	.balign 4\n7:	.long 8b-7b, 9b-7b\n	.text\n"
	// The last two bytes of a page, the rest on the next.
	"	.balign 4096\n	.skip 4096-2-3, 0x90\n"
	".globl at_end_of_page\n"
	"at_end_of_page: mov %rdi, %rax\n	syscall\n	ret\n");

// mov eax, edi; syscall; ret
static const unsigned char small_function[] = {0x89, 0xf8, 0x0f, 0x05, 0xc3};

typedef long (*function)(long);

static void generated_code(void)
{
	unsigned char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(code != MAP_FAILED);
	memcpy(code, small_function, sizeof small_function);
	memcpy(code + 4094, small_function + 2, 2); // The site ends with the page.
	memcpy(code + 4092, small_function, 2);
	code[4096] = 0xc3;
	// Hidden inside of a longer instruction: mov eax, 0x050f; it is no site.
	static const unsigned char constant[] = {0xb8, 0x0f, 0x05, 0x00, 0x00, 0xc3};
	memcpy(code + 100, constant, sizeof constant);
	for (int i = 0; i < 100; i++) {
		CHECK(((function)code)(SYS_getpid) == getpid());
		CHECK(((function)(code + 4092))(SYS_getpid) == getpid());
		CHECK(((function)(code + 100))(0) == 0x050f);
	}
	// The program rewrites the code after it ran, as a JIT does.
	static const unsigned char forty_two[] = {0xb8, 42, 0, 0, 0, 0xc3};
	memcpy(code, forty_two, sizeof forty_two);
	CHECK(((function)code)(SYS_getpid) == 42);
	memcpy(code, small_function, sizeof small_function);
	CHECK(((function)code)(SYS_getppid) == getppid());
	// Written first, executable afterwards; then dropped and mapped anew.
	for (int i = 0; i < 20; i++) {
		unsigned char *page = mmap(code + 4096, 4096, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		memset(page, 0x90, 64);
		memcpy(page + i, small_function, sizeof small_function);
		CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
		CHECK(((function)page)(SYS_getpid) == getpid());
		CHECK(munmap(page, 4096) == 0);
	}
	// The program reads its own code: rewritten or not, it reads the same again.
	nondet("code %llx", (unsigned long long)hash_bytes((void *)site_then_ret, 6));
}

int main(void)
{
	long me = getpid(), parent = getppid();
	for (int i = 0; i < 200; i++) {
		CHECK(site_then_ret(SYS_getpid) == me);
		CHECK(site_is_target(SYS_getpid, 7) == 7 * me);
		CHECK(two_sites(SYS_getpid, SYS_getppid) == parent - me);
		CHECK(jump_right_behind(SYS_getpid, 0) == me + 1);
		CHECK(jump_right_behind(SYS_getpid, 1) == SYS_getpid + 1);
		CHECK(with_rip_relative(SYS_getpid) == me);
		CHECK(call_behind(SYS_getpid) == me);
		CHECK(through_table(SYS_getpid, 0) == me + 1);
		CHECK(through_table(SYS_getpid, 1) == SYS_getpid + 1);
		CHECK(at_end_of_page(SYS_getpid) == me);
	}
	generated_code();
	pid_t child = fork();
	if (child == 0) {
		CHECK(site_then_ret(SYS_getpid) == getpid() && getpid() != me);
		CHECK(site_is_target(SYS_getppid, 3) == 3 * me);
		_exit(0);
	}
	reap("child", child);
	return 0;
}
