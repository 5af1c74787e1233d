// Signals into loops of many shapes: with ways that part and meet, with loops inside, entered in
// the middle, with jumps that memory names or that count rcx down, and in code that the loop
// itself changes.
// covers: setitimer rt_sigaction rt_sigreturn mmap
#include "ticks.h"
#include <sys/mman.h>

enum { TICKS = 3 };

static uint64_t far_count;

static void collatz(void)
{
	uint64_t value = 27, rounds = 0, odd = 0;
	for (ticks = 0; ticks < TICKS; rounds++) {
		if (value & 1) {
			value = value * 3 + 1;
			odd++;
		} else if ((value >>= 1) == 1) {
			value = 27 + rounds % 64;
		}
	}
	nondet("collatz %lu %lu %lu", (unsigned long)value, (unsigned long)rounds, (unsigned long)odd);
}

static void nested(void)
{
	uint32_t sum = 1;
	unsigned long rounds = 0;
	for (ticks = 0; ticks < TICKS; rounds++) {
		for (unsigned i = 0; i < 3; i++) {
			sum = sum * 1664525 + i;
			if (sum % 5 == 0)
				continue;
			for (unsigned j = sum & 3; j; j--)
				sum ^= sum >> j;
		}
	}
	nondet("nested %u %lu", sum, rounds);
}

// Two jumps back, one jump into the middle; and what flags say goes from round to round.
static void tangled(void)
{
	uint64_t a = 1, b = 0;
	ticks = 0;
	__asm__ volatile("clc\n\t"
			 "jmp 3f\n"
			 "1:\tadc $7, %[a]\n\t"
			 "rol $5, %[a]\n"
			 "3:\tlea 3(%[b],%[a]), %[b]\n\t"
			 "test $64, %b[b]\n\t"
			 "jz 1b\n\t"
			 "incq %[far]\n\t"
			 "ror $9, %[b]\n\t"
			 "cmpl %[wanted], %[ticks]\n\t"
			 "jl 1b"
			 : [a] "+r"(a), [b] "+r"(b), [far] "+m"(far_count)
			 : [ticks] "m"(ticks), [wanted] "i"(TICKS)
			 : "cc", "memory");
	nondet("tangled %lx %lx %lu", (unsigned long)a, (unsigned long)b, (unsigned long)far_count);
}

// Small loops whose jumps look at rcx.
static void by_rcx(void)
{
	enum { INNER = 1 << 20 };
	uint64_t sum = 1, rounds = 0;
	for (ticks = 0; ticks < TICKS; rounds++) {
		uint64_t left = INNER;
		__asm__ volatile("1:\tadd %%rcx, %[sum]\n\t"
				 "loop 1b\n\t"
				 "mov %[inner], %%ecx\n"
				 "2:\tror $7, %[sum]\n\t"
				 "sub %%rcx, %[sum]\n\t"
				 "loopne 2b\n\t"
				 "mov %[inner], %%ecx\n"
				 "3:\tjrcxz 4f\n\t"
				 "lea 3(%[sum],%[sum],2), %[sum]\n\t"
				 "dec %%rcx\n\t"
				 "jmp 3b\n"
				 "4:"
				 : [sum] "+r"(sum), "+c"(left)
				 : [inner] "i"(INNER)
				 : "cc");
	}
	nondet("rcx %lx %lu", (unsigned long)sum, (unsigned long)rounds);
}

static void by_table(void)
{
	static void *const ways[] = {&&add, &&turn, &&cross, &&add};
	uint64_t state = 88172645463325252u;
	unsigned long taken[3] = {0};
	ticks = 0;
next:
	if (ticks >= TICKS) {
		nondet("table %lx %lu %lu %lu", (unsigned long)state, taken[0], taken[1], taken[2]);
		return;
	}
	goto *ways[state & 3];
add:
	state = state * 6364136223846793005u + 1442695040888963407u;
	state ^= state >> 33;
	taken[0]++;
	goto next;
turn:
	state = state << 7 | state >> 57;
	state += 0x9e3779b97f4a7c15u;
	taken[1]++;
	goto next;
cross:
	state ^= state << 13 ^ 0x5555;
	taken[2]++;
	goto next;
}

// Code that may be written, of a loop that adds its own constant, and changes that constant
// every 4096 rounds; or only counts beside its code.
static void in_writable_code(int changes_itself)
{
	static const uint8_t CODE[] = {
		0x31, 0xc0,                               // xor eax, eax
		0x31, 0xd2,                               // xor edx, edx
		0x48, 0x05, 0x01, 0x00, 0x00, 0x00,       // loop: add rax, 1
		0xff, 0xc2,                               // inc edx
		0xf7, 0xc2, 0xff, 0x0f, 0x00, 0x00,       // test edx, 4095
		0x75, 0x06,                               // jnz skip
		0xff, 0x05, 0xee, 0xff, 0xff, 0xff,       // inc dword [rip - 18]: the constant
		0x83, 0x3f, TICKS,                        // skip: cmp dword [rdi], TICKS
		0x7c, 0xe5,                               // jl loop
		0xc3,                                     // ret
	};
	enum { CONSTANT_AT = 6, DISPLACEMENT_AT = 22, BEHIND_AT = 26, BESIDE_AT = 512 };
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(code != MAP_FAILED);
	memcpy(code, CODE, sizeof CODE);
	int32_t distance = (changes_itself ? CONSTANT_AT : BESIDE_AT) - BEHIND_AT;
	memcpy(code + DISPLACEMENT_AT, &distance, sizeof distance);
	ticks = 0;
	uint64_t sum = ((uint64_t (*)(volatile int *))(uintptr_t)code)(&ticks);
	uint32_t constant, beside;
	memcpy(&constant, code + CONSTANT_AT, sizeof constant);
	memcpy(&beside, code + BESIDE_AT, sizeof beside);
	nondet("writable %lu %u %u", (unsigned long)sum, constant, beside);
	CHECK(munmap(code, 4096) == 0);
}

int main(void)
{
	start_ticks();
	for (int i = 0; i < 2; i++) {
		collatz();
		nested();
		tangled();
		by_rcx();
		by_table();
		in_writable_code(0);
		in_writable_code(1);
	}
	say("went round");
	return 0;
}
