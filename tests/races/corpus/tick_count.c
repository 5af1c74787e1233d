// A timer's handler counts ticks, and the program takes them over without blocking the signal.
#include "corpus.h"
#include <sys/time.h>

enum { TICKS = 10 };

static volatile int due, fired;

static void on_tick(int number)
{
	(void)number;
	due++;
	fired++;
}

int main(void)
{
	const struct itimerval every = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	int handled = 0;
	signal(SIGALRM, on_tick);
	must(setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer");
	while (fired < TICKS) {
		if (due) {
			handled += due;
			due = 0;
		}
		nanosleep(&(struct timespec){ 0, 200000 }, NULL);
	}
	must(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
	if (handled + due != fired)
		caught("a tick was lost");
	return 0;
}
