// POSIX timers with signals, queried and overrun.
// covers: timer_create timer_settime timer_gettime timer_getoverrun timer_delete
#include "guest.h"

static volatile int ticks, value;

static void on_tick(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	ticks++;
	value = info->si_value.sival_int;
}

int main(void)
{
	timer_t timer;
	struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
	struct itimerspec t = {{0, 10000000}, {0, 10000000}}, now, old;
	CHECK(sigaction(SIGRTMIN, &action, NULL) == 0);
	event.sigev_value.sival_int = 4321;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &t, NULL) == 0);
	while (ticks < 5) {
		struct timespec nap = {0, 50000000};
		nanosleep(&nap, NULL);
	}
	CHECK(timer_gettime(timer, &now) == 0);
	nondet("until the next %ld ns, ticks %d", now.it_value.tv_nsec, ticks);
	say("value %d interval %ld", value, now.it_interval.tv_nsec);
	sigset_t set, before;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0);
	struct timespec nap = {0, 60000000};
	CHECK(nanosleep(&nap, NULL) == 0);
	siginfo_t info;
	CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
	int overrun = timer_getoverrun(timer);
	nondet("overrun %d", overrun);
	say("some were overrun: %d", overrun > 0);
	t = (struct itimerspec){{0, 0}, {0, 0}};
	CHECK(timer_settime(timer, 0, &t, &old) == 0);
	say("old interval %ld", old.it_interval.tv_nsec);
	CHECK(timer_delete(timer) == 0);
	event.sigev_notify = SIGEV_NONE;
	CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
	t.it_value.tv_sec = 1000000;
	CHECK(timer_settime(timer, 0, &t, NULL) == 0);
	CHECK(timer_gettime(timer, &now) == 0 && now.it_value.tv_sec > 999000);
	CHECK(timer_delete(timer) == 0);
	CHECK_ERR(syscall(SYS_timer_delete, 12345), EINVAL);
	CHECK_ERR(timer_create(9999, &event, &timer), EINVAL);
	return 0;
}
