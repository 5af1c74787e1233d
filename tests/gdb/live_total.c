/* Adds up without any system call, and tells of it afterwards. */
#include <stdio.h>

static int total;

void add(int value)
{
	total += value;
}

int main(void)
{
	for (int value = 1; value <= 50; value++)
		add(value);
	printf("total %d\n", total);
	fflush(stdout);
	add(1);
	return 0;
}
