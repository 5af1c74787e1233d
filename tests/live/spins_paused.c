// Two threads hand a number round, and wait for each other in loops with `pause`. The first
// goes back to where it was alone; takes a checkpoint in the middle while the other one waits so,
// goes back to it three times, and does the same again once: how often each has looked is what
// it was.
// prints: alone again
// prints: rolled back 3 times
// prints: the same again
// prints: 400 steps
#include "live.h"

#define STEPS 400

static atomic_int total;
static volatile long looks[2];

static void wait_for(int parity)
{
	while (atomic_load(&total) % 2 != parity) {
		__builtin_ia32_pause();
		looks[parity]++;
	}
}

static void *follow(void *unused)
{
	for (int i = 0; i < STEPS / 2; i++) {
		wait_for(1);
		atomic_fetch_add(&total, 1);
	}
	return unused;
}

static void step_to(int steps)
{
	while (atomic_load(&total) < steps) {
		wait_for(0);
		if (atomic_load(&total) < steps)
			atomic_fetch_add(&total, 1);
	}
	wait_for(0);
}

int main(void)
{
	need_session();
	int alone = checkpoint();
	if (!first_time(alone))
		say("alone again");
	pthread_t other = start(follow, NULL);
	step_to(100);
	if (first_time(alone))
		back(alone);
	int id = checkpoint();
	long then = looks[0];
	step_to(200);
	if (rv_rollbacks(id) < 3)
		back(id);
	say("rolled back %d times", rv_rollbacks(id));
	CHECK(looks[0] >= then && atomic_load(&total) == 200);
	int second = checkpoint();
	step_to(300);
	// What a replay writes is compared with what was written.
	nondet("looked %ld and %ld times", looks[0], looks[1]);
	CHECK(rv_replay(second) == 0);
	say("the same again");
	step_to(STEPS);
	join(other);
	say("%d steps", atomic_load(&total));
	return 0;
}
