// A user whose signal queue is full (RLIMIT_SIGPENDING): there are no POSIX timers, and
// signals do not say where they come from. Threads that spin for each other, and a handler
// that interrupts a computation.
// covers: prlimit64
#include "threads.h"
#include <sys/resource.h>
#include <sys/time.h>

static volatile int flag;
static volatile sig_atomic_t ticks;

static void on_alarm(int number)
{
	(void)number;
	ticks++;
}

static void *spin(void *unused)
{
	while (flag == 0)
		;
	return unused;
}

int main(void)
{
	struct rlimit none = {0, 0};
	CHECK(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
	struct sigaction action = {.sa_handler = on_alarm};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	pthread_t one = start(spin, NULL), two = start(spin, NULL);
	say("%llx", (unsigned long long)compute(1, 40000000));
	flag = 1;
	join(one);
	join(two);
	struct itimerval soon = {{0, 20000}, {0, 20000}};
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	unsigned long rounds = 0;
	while (ticks < 3)
		rounds += compute(rounds, 100) != 0;
	memset(&soon, 0, sizeof soon);
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	nondet("%lu rounds", rounds);
	say("interrupted");
	return 0;
}
