// A timer's signals for guests that compute until some have come.
#ifndef TICKS_H
#define TICKS_H
#include "guest.h"
#include <sys/time.h>

enum { TICKS_EVERY_US = 3000 };

static volatile int ticks;

GUEST_FN void on_tick(int number)
{
	(void)number;
	ticks++;
}

GUEST_FN void start_ticks(void)
{
	struct sigaction action = {.sa_handler = on_tick};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval every = {{0, TICKS_EVERY_US}, {0, TICKS_EVERY_US}};
	CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

GUEST_FN void compute_for_ticks(int count)
{
	for (int end = ticks + count; ticks < end;)
		;
}

#endif
