// Computes for ever, with a call now and then.
#include <unistd.h>

static volatile unsigned long total;

static void step(unsigned long round)
{
	total += round;
	getppid();
}

int main(void)
{
	for (unsigned long round = 0;; round++) {
		for (int i = 0; i < 100000; i++)
			total ^= i;
		step(round);
	}
}
