/* Computes for a second or more, and writes now and then. */
#include <stdio.h>

static volatile unsigned long turns;

int twice(int value)
{
	return 2 * value;
}

void finished(void)
{
}

int main(void)
{
	for (int round = 0; round < 60; round++) {
		for (unsigned long i = 0; i < 10000000ul; i++)
			turns += i;
		printf("%d\n", round);
		fflush(stdout);
	}
	finished();
	return 0;
}
