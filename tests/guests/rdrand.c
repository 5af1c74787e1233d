// Hardware random numbers. Under the tool the processor may say that it has none:
// then a program that asks does not use them.
// covers: getrandom
// needs: cpu:rdrand
#include "guest.h"
#include <cpuid.h>

int main(void)
{
	unsigned a, b, c, d;
	unsigned long value = 0;
	unsigned char got = 0;
	__cpuid(1, a, b, c, d);
	nondet("cpuid says rdrand %d", (c & bit_RDRND) != 0);
	if (c & bit_RDRND)
		__asm__ volatile("rdrand %0; setc %1" : "=r"(value), "=qm"(got)::"cc");
	nondet("rdrand %d %lx", got, value);
	__cpuid_count(7, 0, a, b, c, d);
	nondet("cpuid says rdseed %d", (b & bit_RDSEED) != 0);
	value = got = 0;
	if (b & bit_RDSEED)
		__asm__ volatile("rdseed %0; setc %1" : "=r"(value), "=qm"(got)::"cc");
	nondet("rdseed %d %lx", got, value);
	say("random instructions asked for");
	return 0;
}
