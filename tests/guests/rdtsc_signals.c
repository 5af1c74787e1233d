// Signals that find the program between readings of the time stamp counter: the
// number of rounds and what was read must come out the same in a replay.
// covers: setitimer rt_sigaction
#include "guest.h"
#include <cpuid.h>
#include <signal.h>
#include <sys/time.h>
#include <x86intrin.h>

static volatile int arrived;

static void on_alarm(int signal)
{
	(void)signal;
	arrived++;
}

int main(void)
{
	struct itimerval every = { { 0, 5000 }, { 0, 5000 } }, never = { { 0, 0 }, { 0, 0 } };
	uint64_t mixed = 0;
	volatile uint64_t rounds = 0;
	unsigned a, b, c, d, core;
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; arrived < 4; i++) {
		mixed ^= __rdtsc();
		if (i % 1000 == 0) {
			mixed ^= __rdtscp(&core);
			__cpuid_count(4, 0, a, b, c, d);
			mixed ^= a;
		}
		for (int j = 0; j < 50; j++)
			rounds += j;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("~%llx %llu\n", (unsigned long long)mixed, (unsigned long long)rounds);
	printf("alarms: %s\n", arrived >= 4 ? "came" : "are missing");
	return 0;
}
