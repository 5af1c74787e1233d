// What the buggy programs share: rounds in which two threads run, and how a bug is told.
//
// Natively each bug shows rarely: in each round one thread passes its window at once, and the
// other comes to its own after a preparation that is much longer. To see the bug, a thread must
// be stopped within its window for as long as that. Build with -DWINDOW_STEPS=1000000 to see it
// every time.
#ifndef RACE_H
#define RACE_H
#include "../guests/threads.h"

#ifndef WINDOW_STEPS
// Some 5 microseconds.
#define WINDOW_STEPS 3000
#endif
// Some 150 microseconds.
#define PREPARATION_STEPS 90000
#define ROUNDS 10

static pthread_barrier_t round_begins, round_ends;

GUEST_FN void work(long steps)
{
	__asm__ volatile("" : : "r"(compute(1, steps)));
}

// The bug has shown: what the finder of it waits for.
GUEST_FN void caught(const char *what)
{
	fprintf(stderr, "caught: %s\n", what);
	_exit(1);
}

static void *second_thread(void *second)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&round_begins);
		((void (*)(void))second)();
		pthread_barrier_wait(&round_ends);
	}
	return NULL;
}

// Runs both at the same time, again and again; `prepare` comes before a round, `check` after it.
GUEST_FN void race(void (*prepare)(void), void (*first)(void), void (*second)(void), void (*check)(void))
{
	CHECK(pthread_barrier_init(&round_begins, NULL, 2) == 0);
	CHECK(pthread_barrier_init(&round_ends, NULL, 2) == 0);
	pthread_t thread = start(second_thread, (void *)second);
	for (int i = 0; i < ROUNDS; i++) {
		prepare();
		pthread_barrier_wait(&round_begins);
		first();
		pthread_barrier_wait(&round_ends);
		check();
	}
	join(thread);
	say("fine");
}

#endif
