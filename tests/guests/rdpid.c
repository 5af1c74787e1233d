// The number of the processor, as the instruction for it tells: it is the recording's in replay, also
// where the thread runs on another processor then.
// covers: sched_getaffinity sched_setaffinity
// needs: cpu:rdpid
#include "guest.h"
#include <sched.h>

static uint64_t processor(int which)
{
	uint64_t number;
	if (which == 0)
		__asm__ volatile("rdpid %0" : "=r"(number));
	else if (which == 1)
		__asm__ volatile("rdpid %%r11; mov %%r11, %0" : "=r"(number)::"r11");
	else
		__asm__ volatile("mov $-1, %%rax; rdpid %%rax; mov %%rax, %0" : "=r"(number)::"rax");
	return number;
}

// It leaves the flags as they are.
static int keeps_flags(void)
{
	uint8_t carry, zero;
	__asm__ volatile("xor %%eax, %%eax; stc; rdpid %%rdx; setc %0; setz %1" : "=qm"(carry), "=qm"(zero)::"rax", "rdx", "cc");
	return carry && zero;
}

int main(void)
{
	cpu_set_t all;
	CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
	uint64_t sum = 0;
	for (int round = 0; round < 300; round++) {
		cpu_set_t one;
		CPU_ZERO(&one);
		CPU_SET(round % CPU_COUNT(&all), &one);
		// Where that is not permitted, it runs where it likes.
		sched_setaffinity(0, sizeof one, &one);
		uint64_t number = processor(round % 3);
		CHECK(number >> 32 == 0);
		sum = sum * 31 + number;
	}
	nondet("processors %lx", sum);
	CHECK(keeps_flags());
	say("done");
	return 0;
}
