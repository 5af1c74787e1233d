// Threads that were made since a checkpoint are gone after a rollback: those that
// ended, those that wait, those that compute.
// prints: alone
// prints: six more
// prints: alone
// prints: six more
// prints: joined 6
#include "live.h"

static atomic_int go, stop;

static void *wait_for_it(void *argument)
{
	await(&go);
	return argument;
}

static void *spin(void *argument)
{
	while (!atomic_load(&stop))
		compute(1, 1000);
	return argument;
}

static void *end(void *argument)
{
	return argument;
}

int main(void)
{
	need_session();
	int alone = count_threads();
	int id = checkpoint();
	int is_first = first_time(id);
	until_threads(alone, 0);
	say("alone");
	CHECK(atomic_load(&go) == 0 && atomic_load(&stop) == 0);
	pthread_t threads[6];
	for (long i = 0; i < 6; i++)
		threads[i] = start(i % 2 ? wait_for_it : spin, (void *)i);
	CHECK(join(start(end, (void *)5)) == 5);
	until_threads(alone + 6, 1);
	say("six more");
	if (is_first)
		back(id);
	post(&stop, 1);
	post(&go, 1);
	for (long i = 0; i < 6; i++)
		CHECK(join(threads[i]) == i);
	say("joined 6");
	forget(id);
	return 0;
}
