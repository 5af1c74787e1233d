// Interval timers of real and of processor time, and alarm.
// covers: setitimer getitimer alarm
#include "guest.h"
#include <sys/time.h>

static volatile int ticks;

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

int main(void)
{
	struct itimerval t = {{0, 10000}, {0, 10000}}, now, old;
	signal(SIGALRM, on_tick);
	signal(SIGVTALRM, on_tick);
	signal(SIGPROF, on_tick);
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
	while (ticks < 5)
		usleep(30000); // Ended by the ticks.
	CHECK(getitimer(ITIMER_REAL, &now) == 0);
	nondet("left %ld us, ticks %d", (long)now.it_value.tv_usec, ticks);
	t = (struct itimerval){{0, 0}, {0, 0}};
	CHECK(setitimer(ITIMER_REAL, &t, &old) == 0);
	say("interval %ld", (long)old.it_interval.tv_usec);
	// Processor time passes in system calls too, where the signals are delivered.
	for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
		t = (struct itimerval){{0, 4000}, {0, 4000}};
		ticks = 0;
		CHECK(setitimer(which, &t, NULL) == 0);
		uint64_t hash = 0;
		while (ticks < 3) {
			for (int i = 0; i < 100000; i++)
				hash = hash * 31 + i;
			hash += getppid() == 0;
		}
		t = (struct itimerval){{0, 0}, {0, 0}};
		CHECK(setitimer(which, &t, NULL) == 0);
		say("timer %d ticked", which);
	}
	// Blocked but in sigsuspend, so that it cannot come between the look and the wait.
	sigset_t none, ours;
	sigemptyset(&none);
	sigemptyset(&ours);
	sigaddset(&ours, SIGALRM);
	CHECK(sigprocmask(SIG_BLOCK, &ours, NULL) == 0);
	ticks = 0;
	CHECK(alarm(1000) == 0);
	unsigned left = alarm(1);
	say("alarm left %d", left > 0 && left <= 1000);
	while (ticks == 0)
		sigsuspend(&none);
	say("ticks %d, left %u", ticks, alarm(0));
	CHECK_ERR(setitimer(99, &t, NULL), EINVAL);
	return 0;
}
