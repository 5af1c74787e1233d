// Timers are as they were at the checkpoint: what was set since does not fire, what fired since
// fires again, what was stopped or deleted since goes on; of signals and of descriptors.
// prints: went back
// prints: what was set since is not set
// prints: what has fired since fires again, once
// prints: what was stopped since goes on
// prints: processor time
// prints: numbers
#include "live.h"
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/timerfd.h>

static volatile sig_atomic_t alarms, first_signals, second_signals;

static void count(int number)
{
	if (number == SIGALRM)
		alarms++;
	if (number == SIGUSR1)
		first_signals++;
	if (number == SIGUSR2)
		second_signals++;
}

static timer_t new_timer(int signal)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	return timer;
}

static struct itimerspec after(long ms, long every_ms)
{
	return (struct itimerspec){{every_ms / 1000, every_ms % 1000 * 1000000},
				   {ms / 1000, ms % 1000 * 1000000}};
}

static void set(timer_t timer, long ms, long every_ms)
{
	struct itimerspec time = after(ms, every_ms);
	CHECK(timer_settime(timer, 0, &time, NULL) == 0);
}

static void set_descriptor(int fd, long ms, long every_ms)
{
	struct itimerspec time = after(ms, every_ms);
	CHECK(timerfd_settime(fd, 0, &time, NULL) == 0);
}

static int is_readable(int fd, int ms)
{
	struct pollfd asked = {fd, POLLIN, 0};
	int result;
	while ((result = poll(&asked, 1, ms)) < 0)
		CHECK(errno == EINTR);
	return result == 1;
}

static void read_timer(int fd)
{
	uint64_t ticks;
	CHECK(is_readable(fd, 60000));
	CHECK(read(fd, &ticks, sizeof ticks) == sizeof ticks && ticks >= 1);
}

static int is_set(timer_t timer)
{
	struct itimerspec now;
	CHECK(timer_gettime(timer, &now) == 0);
	return now.it_value.tv_sec || now.it_value.tv_nsec;
}

// Until a handler has counted so far.
static void until(volatile sig_atomic_t *counter, int least)
{
	sigset_t all, before;
	sigfillset(&all);
	CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
	while (*counter < least)
		sigsuspend(&before);
	CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
}

int main(void)
{
	need_session();
	handle(SIGALRM, count, 0);
	handle(SIGUSR1, count, 0);
	handle(SIGUSR2, count, 0);
	timer_t idle = new_timer(SIGUSR1), once = new_timer(SIGUSR1), often = new_timer(SIGUSR2);
	int fd_idle = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), fd_once = timerfd_create(CLOCK_MONOTONIC, 0),
	    fd_stopped = timerfd_create(CLOCK_REALTIME, 0), fd_often = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerval soon = {.it_value = {0, 300000}}, profiled = {{100, 0}, {100, 0}}, none = {0};
	CHECK(setitimer(ITIMER_PROF, &profiled, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	set(once, 300, 0);
	set(often, 50, 50);
	set_descriptor(fd_once, 300, 0);
	set_descriptor(fd_stopped, 400, 0);
	set_descriptor(fd_often, 50, 50);

	int id = checkpoint();
	int is_first = first_time(id);
	if (is_first) {
		int here = (int)alarms;
		until(&alarms, here + 1);
		until(&first_signals, 1);
		read_timer(fd_once);
		// What would end it, and what would be taken for another.
		set(idle, 3000, 0);
		set(once, 1, 1);
		set_descriptor(fd_idle, 1, 1);
		set_descriptor(fd_stopped, 0, 0);
		set_descriptor(fd_often, 0, 0);
		set(often, 0, 0);
		timer_t more = new_timer(SIGTERM);
		set(more, 1500, 0);
		CHECK(setitimer(ITIMER_PROF, &none, NULL) == 0);
		CHECK(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {3000, 0}}, NULL) == 0);
		back(id);
	}
	say("went back");
	CHECK(!is_set(idle));
	CHECK(!is_readable(fd_idle, 0));
	say("what was set since is not set");
	until(&alarms, 1);
	until(&first_signals, 1);
	read_timer(fd_once);
	// Shorter than what the periodic timer interrupts.
	CHECK(!is_readable(fd_once, 10));
	struct itimerval now;
	CHECK(getitimer(ITIMER_REAL, &now) == 0 && !timerisset(&now.it_value));
	CHECK(!is_set(once));
	say("what has fired since fires again, once");
	until(&second_signals, (int)second_signals + 3);
	read_timer(fd_stopped);
	read_timer(fd_often);
	read_timer(fd_often);
	say("what was stopped since goes on");
	CHECK(getitimer(ITIMER_PROF, &now) == 0 && now.it_value.tv_sec >= 90 && now.it_interval.tv_sec == 100);
	CHECK(setitimer(ITIMER_PROF, &none, NULL) == 0);
	say("processor time");

	// One that was deleted since has its number again, where the kernel lets it be chosen.
	int may_choose = prctl(77 /* PR_TIMER_CREATE_RESTORE_IDS */, 0, 0, 0, 0) == 0;
	set(often, 0, 0);
	volatile int seen = 0;
	int other = checkpoint();
	if (first_time(other)) {
		CHECK(timer_delete(once) == 0);
		back(other);
	}
	struct itimerspec time;
	seen = timer_gettime(once, &time);
	CHECK(!may_choose || seen == 0);
	set(idle, 10, 0);
	until(&first_signals, 2);
	say("numbers");
	return 0;
}
