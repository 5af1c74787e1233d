// The time stamp counter and the processor's description.
// covers: clock_gettime
#include "guest.h"
#include <cpuid.h>
#include <x86intrin.h>

int main(void)
{
	uint64_t last = __rdtsc(), mixed = 0;
	unsigned core, a, b, c, d;
	for (int i = 0; i < 2000; i++) {
		uint64_t now = __rdtsc();
		CHECK(now >= last);
		mixed = mixed * 31 + (now - last);
		last = now;
	}
	for (int i = 0; i < 200; i++) {
		uint64_t now = __rdtscp(&core);
		mixed = mixed * 31 + now + core;
	}
	nondet("mixed %llx", (unsigned long long)mixed);
	// The upper halves of rax and rdx are cleared, no other register changes.
	uint64_t rax = ~0ul, rdx = ~0ul, rbx = 0x1234567890abcdef, rcx = 77;
	__asm__ volatile("rdtsc" : "+a"(rax), "+d"(rdx), "+b"(rbx), "+c"(rcx));
	CHECK(rax >> 32 == 0 && rdx >> 32 == 0 && rbx == 0x1234567890abcdef && rcx == 77);
	CHECK(__get_cpuid(0, &a, &b, &c, &d));
	nondet("vendor %x %x %x", b, c, d);
	for (unsigned leaf = 0; leaf <= 7; leaf++) {
		__cpuid_count(leaf, 0, a, b, c, d);
		nondet("leaf %u: %x %x %x %x", leaf, a, b, c, d);
	}
	__cpuid(1, a, b, c, d);
	CHECK(d & bit_SSE2);
	say("SSE2 is there");
	return 0;
}
