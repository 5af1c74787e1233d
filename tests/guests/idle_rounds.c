// A thread that looks for work, finds none and counts its rounds: of all that it has, only that
// count, behind a loop that it does not enter, tells one round from the next.
// covers: clone futex clock_nanosleep
// build: -pthread
#include "guest.h"
#include <pthread.h>

static volatile int stop, ready, jobs[64];
static volatile long rounds, sum;

static void *look_for_work(void *unused)
{
	while (!stop) {
		int count = ready;
		for (int i = 0; i < count; i++)
			sum += jobs[i];
		__asm__ volatile("lock incq %0" : "+m"(rounds) : : "cc");
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, look_for_work, NULL) == 0);
	for (int i = 0; i < 20; i++)
		usleep(1000);
	stop = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	nondet("%ld rounds", rounds);
	say("no work: %ld", sum);
	return 0;
}
