/* Variables that loops write all the time, with and without system calls between, and once
 * more long before the end. */
#include <stdio.h>

static volatile unsigned long busy, rare;

static void loop(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		busy += 2;
}

int main(void)
{
	loop(60000000);
	rare = 1;
	loop(60000000);
	for (int round = 0; round < 40; round++) {
		loop(50000);
		printf("%lu\n", busy);
		fflush(stdout);
	}
	rare = 2;
	for (int round = 0; round < 400; round++) {
		printf("%d\n", round);
		fflush(stdout);
	}
	return 0;
}
