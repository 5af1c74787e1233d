// POSIX timers whose signals go to one thread, and timers that run a function in a thread.
// covers: timer_create timer_settime timer_delete rt_sigtimedwait
#include "threads.h"
#include <semaphore.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static atomic_int stop;
static sem_t called;
static __thread volatile int ticks_here;
static volatile int ticks_elsewhere;
static atomic_int chosen;

static void on_tick(int number)
{
	(void)number;
	if (own_tid() == atomic_load(&chosen))
		ticks_here++;
	else
		ticks_elsewhere++;
}

// The timer is aimed at the thread that makes it; it computes until ten ticks have come.
static void *compute_until_ticks(void *argument)
{
	timer_t timer;
	volatile uint64_t state = 1;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	struct itimerspec t = {{0, 2000000}, {0, 2000000}}, off = {{0, 0}, {0, 0}};
	(void)argument;
	event.sigev_notify_thread_id = own_tid();
	atomic_store(&chosen, own_tid());
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &t, NULL) == 0);
	while (ticks_here < 10)
		state = compute(state, 1000);
	CHECK(timer_settime(timer, 0, &off, NULL) == 0 && timer_delete(timer) == 0);
	nondet("state %llx", (unsigned long long)state);
	return (void *)1;
}

static void *compute_on(void *argument)
{
	volatile uint64_t state = 1;
	while (!atomic_load(&stop))
		state = compute(state, 1000);
	return argument;
}

static void *wait_for_ticks(void *argument)
{
	timer_t timer;
	siginfo_t info;
	sigset_t set = set_of(SIGRTMIN + 1);
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1};
	struct itimerspec t = {{0, 1000000}, {0, 1000000}};
	(void)argument;
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	event.sigev_notify_thread_id = own_tid();
	event.sigev_value.sival_int = 55;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &t, NULL) == 0);
	for (int i = 0; i < 5; i++) {
		CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 1);
		CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 55);
	}
	CHECK(timer_delete(timer) == 0);
	return (void *)5;
}

static void notice(union sigval value)
{
	CHECK(value.sival_int == 66 && own_tid() != getpid());
	CHECK(sem_post(&called) == 0);
}

static void call_in_threads(void)
{
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notice};
	struct itimerspec t = {{0, 2000000}, {0, 2000000}};
	event.sigev_value.sival_int = 66;
	CHECK(sem_init(&called, 0, 0) == 0);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &t, NULL) == 0);
	for (int i = 0; i < 5; i++)
		CHECK(sem_wait(&called) == 0);
	CHECK(timer_delete(timer) == 0);
	say("called five times");
}

int main(void)
{
	handle(SIGRTMIN, on_tick, SA_RESTART);
	pthread_t busy = start(compute_on, NULL);
	say("ticked: %ld", join(start(compute_until_ticks, NULL)));
	say("waited for: %ld", join(start(wait_for_ticks, NULL)));
	call_in_threads();
	atomic_store(&stop, 1);
	join(busy);
	say("ticks elsewhere: %d", ticks_elsewhere);
	return 0;
}
