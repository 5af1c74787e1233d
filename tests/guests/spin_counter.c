// A loop whose registers repeat while a counter in memory moves on, under forty alarms.
// covers: setitimer rt_sigreturn
#include "threads.h"
#include <sys/time.h>

static volatile int ticks;
static volatile uint64_t in_memory;

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

// At the same instruction the registers are the same in each round: only memory tells them apart.
static void count_in_memory(int until)
{
	while (ticks < until)
		__asm__ volatile("addq $1, %0" : "+m"(in_memory) : : "cc");
}

static void *count(void *argument)
{
	count_in_memory((int)(long)argument);
	return NULL;
}

int main(void)
{
	struct itimerval t = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
	handle(SIGALRM, on_tick, SA_RESTART);
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
	count_in_memory(20);
	// The alarms come to a thread now: the main one blocks them.
	pthread_t thread = start(count, (void *)40l);
	mask(SIG_BLOCK, SIGALRM);
	join(thread);
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	nondet("counted %llu", (unsigned long long)in_memory);
	say("forty alarms: %d", ticks >= 40);
	return 0;
}
