// Signals into loops that little tells apart from round to round: the upper half of a vector
// register, a floating-point register, the depth of the stack on the way back; and into loops of
// instructions that are seldom written: string instructions, and addresses by the short pointer.
// covers: setitimer rt_sigaction rt_sigreturn
#include "ticks.h"

enum { TICKS = 3, LINKS = 200 };

static void in_upper_half(void)
{
	static const uint64_t ONE[2] __attribute__((aligned(16))) = {0, 1};
	uint64_t out[2];
	ticks = 0;
	__asm__ volatile("pxor %%xmm9, %%xmm9\n"
			 "1:\tpaddq %[one], %%xmm9\n\t"
			 "cmpl %[wanted], %[ticks]\n\t"
			 "jl 1b\n\t"
			 "movdqu %%xmm9, %[out]"
			 : [out] "=m"(out)
			 : [ticks] "m"(ticks), [one] "m"(ONE), [wanted] "i"(TICKS)
			 : "xmm9", "cc", "memory");
	nondet("upper half %lu %lu", (unsigned long)out[0], (unsigned long)out[1]);
}

static void in_float(void)
{
	long double sum = 0;
	ticks = 0;
	__asm__ volatile("1:\tfld1\n\t"
			 "faddp\n\t"
			 "cmpl %[wanted], %[ticks]\n\t"
			 "jl 1b"
			 : [sum] "+t"(sum)
			 : [ticks] "m"(ticks), [wanted] "i"(TICKS)
			 : "st(7)", "cc", "memory");
	nondet("float %.0Lf", sum);
	ticks = 0;
	__asm__ volatile("fld1\n"
			 "1:\tfadd %%st, %%st(1)\n\t"
			 "cmpl %[wanted], %[ticks]\n\t"
			 "jl 1b\n\t"
			 "fstp %%st(0)"
			 : [sum] "+t"(sum)
			 : [ticks] "m"(ticks), [wanted] "i"(TICKS)
			 : "st(7)", "cc", "memory");
	nondet("float below the top %.0Lf", sum);
}

struct link {
	struct link *next;
};

long depth_of(const struct link *link);
__asm__(".text\n"
	"depth_of:\n\t"
	"xor %eax, %eax\n\t"
	"test %rdi, %rdi\n\t"
	"je 1f\n\t"
	"push %rdx\n\t"
	"mov (%rdi), %rdi\n\t"
	"call depth_of\n\t"
	"pop %rdx\n\t"
	"inc %rax\n"
	"1:\tret\n\t"
	".p2align 4\n");

static void on_the_way_back(void)
{
	static struct link links[LINKS];
	unsigned long sum = 0;
	for (int i = 0; i + 1 < LINKS; i++)
		links[i].next = &links[i + 1];
	for (ticks = 0; ticks < TICKS;)
		sum += (unsigned long)depth_of(links);
	nondet("way back %lu", sum);
}

static void by_string_instructions(void)
{
	static uint8_t bytes[256];
	uint64_t sum = 0, rounds = 0;
	for (unsigned i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 7);
	for (ticks = 0; ticks < TICKS; rounds++) {
		const uint8_t *at = bytes;
		uint64_t left = sizeof bytes;
		__asm__ volatile("xor %%eax, %%eax\n"
				 "1:\tlodsb\n\t"
				 "add %%rax, %[sum]\n\t"
				 "dec %[left]\n\t"
				 "jnz 1b"
				 : "+S"(at), [left] "+r"(left), [sum] "+r"(sum)
				 :
				 : "rax", "cc", "memory");
	}
	nondet("strings %lu %lu", (unsigned long)sum, (unsigned long)rounds);
}

static void by_short_pointer(void)
{
	uint64_t sum = 1;
	ticks = 0;
	__asm__ volatile("1:\tlea 1b(%%eip), %%eax\n\t"
			 "add %%rax, %[sum]\n\t"
			 "rol $3, %[sum]\n\t"
			 "cmpl %[wanted], %[ticks]\n\t"
			 "jl 1b"
			 : [sum] "+r"(sum)
			 : [ticks] "m"(ticks), [wanted] "i"(TICKS)
			 : "rax", "cc", "memory");
	nondet("short pointer %lx", (unsigned long)sum);
}

int main(void)
{
	start_ticks();
	for (int i = 0; i < 2; i++) {
		in_upper_half();
		in_float();
		on_the_way_back();
		by_string_instructions();
		by_short_pointer();
	}
	say("told apart");
	return 0;
}
