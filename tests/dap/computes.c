// Computes for ever, with a call now and then. Anybody may attach to it.
#include <sys/prctl.h>
#include <unistd.h>

static volatile unsigned long total;

static void step(unsigned long round)
{
	total += round;
	getppid();
}

int main(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	for (unsigned long round = 0;; round++) {
		for (int i = 0; i < 100000; i++)
			total ^= i;
		step(round);
	}
}
