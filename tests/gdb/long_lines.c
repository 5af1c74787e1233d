/* Long loops that stand on one line each, and lines without any. */
#include <stdio.h>

#define ROUNDS 30000000

static volatile long sum;

static long __attribute__((noinline)) square(long i)
{
	return i * i;
}

static void __attribute__((noinline)) finished(void)
{
	printf("%ld\n", sum);
}

int main(void)
{
	sum = 1;
	for (long i = 0; i < ROUNDS; i++) sum += i * i;
	sum = 2;
	for (long i = 0; i < ROUNDS; i++) sum += square(i);
	sum = 3;
	finished();
	return 0;
}
