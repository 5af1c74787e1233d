// Threads that ended since a checkpoint are back after a rollback, with their stacks,
// their registers and their thread-local memory, and can be joined again.
// prints: the threads gave 1007 1107 1207 1307
// prints: the threads gave 1007 1107 1207 1307
// prints: the threads gave 1007 1107 1207 1307
// prints: joined
#include "live.h"

static atomic_int ready[4], go;
static __thread int own;

static void *work(void *argument)
{
	int on_stack = 1000 + 100 * (int)(long)argument;
	own = 3;
	errno = E2BIG;
	post(&ready[(long)argument], 1);
	await(&go);
	own += 4;
	return (void *)(long)(on_stack + own);
}

int main(void)
{
	need_session();
	pthread_t threads[4];
	for (long i = 0; i < 4; i++)
		threads[i] = start(work, (void *)i);
	for (int i = 0; i < 4; i++)
		await(&ready[i]);
	int alone = count_threads();
	int id = checkpoint();
	int count = rv_rollbacks(id);
	until_threads(alone, 4);
	post(&go, 1);
	long results[4];
	for (int i = 0; i < 4; i++)
		results[i] = join(threads[i]);
	say("the threads gave %ld %ld %ld %ld", results[0], results[1], results[2], results[3]);
	if (count < 2)
		back(id);
	say("joined");
	return 0;
}
