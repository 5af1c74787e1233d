// Another thread than the one that took the checkpoint goes back to it: one that was
// there then, one that was made since, and main to a checkpoint of a thread.
// prints: main returned 0
// prints: main returned 1
// prints: main returned 2
// prints: the worker was told 2
// prints: the taker returned 0
// prints: the taker returned 1
// prints: joined
#include "live.h"

static atomic_int go, taken, finish;
static int id;

static void *work(void *argument)
{
	(void)argument;
	int told = await(&go);
	if (told == 1)
		back(id);
	return (void *)(long)told;
}

static void *made_since(void *argument)
{
	(void)argument;
	back(id);
}

static void *take(void *argument)
{
	(void)argument;
	pid_t tid = own_tid();
	id = checkpoint();
	int count = rv_rollbacks(id);
	CHECK(own_tid() == tid);
	say("the taker returned %d", count);
	post(&taken, 1 + count);
	await(&finish);
	return NULL;
}

int main(void)
{
	need_session();
	pthread_t worker = start(work, NULL);
	pid_t tid = own_tid();
	id = checkpoint();
	int count = rv_rollbacks(id);
	CHECK(own_tid() == tid);
	CHECK(atomic_load(&go) == 0);
	say("main returned %d", count);
	if (count == 0) {
		post(&go, 1);
		join(worker);
		CHECK(!"the worker did not go back");
	} else if (count == 1) {
		join(start(made_since, NULL));
		CHECK(!"the thread did not go back");
	}
	post(&go, 2);
	say("the worker was told %ld", join(worker));
	forget(id);

	pthread_t taker = start(take, NULL);
	if (await(&taken) == 1)
		back(id);
	CHECK(atomic_load(&taken) == 2);
	post(&finish, 1);
	join(taker);
	say("joined");
	return 0;
}
