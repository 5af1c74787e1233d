// setitimer with threads: the process's alarm comes to whichever thread does not block it.
// covers: setitimer rt_sigreturn
#include "threads.h"
#include <sys/time.h>

static atomic_int ticks, stop, wanted, enough;
static __thread volatile int ticks_here;

static void on_tick(int number)
{
	(void)number;
	ticks_here++;
	atomic_fetch_add(&ticks, 1);
}

static void *compute_open(void *argument)
{
	volatile uint64_t state = 1;
	mask(SIG_UNBLOCK, SIGALRM);
	mask(SIG_UNBLOCK, SIGPROF);
	while (!atomic_load(&stop)) {
		state = compute(state, 300);
		if (!atomic_load(&enough) && atomic_load(&ticks) >= atomic_load(&wanted))
			post(&enough, 1);
	}
	mask(SIG_BLOCK, SIGALRM);
	mask(SIG_BLOCK, SIGPROF);
	*(uint64_t *)argument = state;
	return (void *)(long)ticks_here;
}

// The main thread blocks the signal: all ticks come to the others.
static void tick_in_others(int which, int count)
{
	pthread_t threads[2];
	uint64_t states[2];
	struct itimerval t = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
	atomic_store(&ticks, 0);
	atomic_store(&stop, 0);
	atomic_store(&enough, 0);
	atomic_store(&wanted, count);
	for (int i = 0; i < 2; i++)
		threads[i] = start(compute_open, &states[i]);
	CHECK(setitimer(which, &t, NULL) == 0);
	await(&enough);
	CHECK(setitimer(which, &off, NULL) == 0);
	atomic_store(&stop, 1);
	long sum = join(threads[0]);
	sum += join(threads[1]);
	say("enough ticks %d, all in the others %d, here %d", sum >= count, sum == atomic_load(&ticks), ticks_here);
	nondet("ticks %ld, states %llx", sum, (unsigned long long)hash_bytes(states, sizeof states));
}

int main(void)
{
	mask(SIG_BLOCK, SIGALRM);
	mask(SIG_BLOCK, SIGPROF);
	handle(SIGALRM, on_tick, SA_RESTART);
	handle(SIGPROF, on_tick, SA_RESTART);
	tick_in_others(ITIMER_REAL, 20);
	tick_in_others(ITIMER_PROF, 5);
	return 0;
}
