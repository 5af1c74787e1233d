// Threads that were made and joined, and made and left at work, since the checkpoint are
// made again by a replay, and those at work go on in the present.
// prints: sum 28
// prints: replayed 1
// prints: replayed 2
// prints: the others were told
#include "live.h"

static atomic_int go, at_work;

static void *give(void *argument)
{
	return argument;
}

static void *wait_for_it(void *argument)
{
	atomic_fetch_add(&at_work, 1);
	(void)argument;
	return (void *)(long)await(&go);
}

int main(void)
{
	need_session();
	int alone = count_threads();
	int id = checkpoint();
	long sum = 0;
	pthread_t threads[8], others[3];
	for (int i = 0; i < 3; i++)
		others[i] = start(wait_for_it, NULL);
	for (long i = 0; i < 8; i++)
		threads[i] = start(give, (void *)i);
	for (int i = 0; i < 8; i++)
		sum += join(threads[i]);
	while (atomic_load(&at_work) < 3)
		sched_yield();
	say("sum %ld", sum);
	for (int i = 1; i <= 2; i++) {
		again(id);
		say("replayed %d", i);
	}
	CHECK(sum == 28 && atomic_load(&at_work) == 3);
	until_threads(alone + 3, 8);
	post(&go, 9);
	for (int i = 0; i < 3; i++)
		CHECK(join(others[i]) == 9);
	say("the others were told");
	return 0;
}
