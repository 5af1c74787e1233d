// Answers that the kernel writes over the call's own input.
// covers: nanosleep clock_nanosleep setitimer timer_settime
// build: -Wno-restrict
#include "guest.h"
#include <sys/time.h>

static void on_alarm(int number)
{
	(void)number;
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval soon = {{0, 0}, {0, 20000}};
	sigaction(SIGALRM, &action, NULL);

	struct timespec pause = {10, 0};
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK_ERR(nanosleep(&pause, &pause), EINTR);
	say("nanosleep: %d seconds left", (int)pause.tv_sec);
	nondet("%ld", pause.tv_nsec);

	soon.it_value.tv_usec = 20000;
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause) == EINTR);
	say("clock_nanosleep: %d seconds left", (int)pause.tv_sec);

	struct itimerval both = {{100, 0}, {100, 0}};
	setitimer(ITIMER_REAL, &both, NULL);
	struct itimerval swapped = {{0, 0}, {0, 0}};
	CHECK(setitimer(ITIMER_REAL, &swapped, &swapped) == 0);
	say("setitimer: interval %ld", swapped.it_interval.tv_sec);

	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
	struct itimerspec spec = {{50, 0}, {50, 0}};
	CHECK(timer_settime(timer, 0, &spec, &spec) == 0);
	say("timer_settime: interval %ld", spec.it_interval.tv_sec);
	return 0;
}
