/* Computes for some seconds without any system call. */
#include <stdio.h>

static volatile unsigned long turns;

int main(void)
{
	puts("begins");
	for (unsigned long i = 0; i < 5000000000ul; i++)
		turns += i;
	printf("%lu\n", turns);
	return 0;
}
