// A checkpoint is of all processes that share memory: one that was made since, or that has
// ended since, is in the way, and the program goes on unharmed. Where the process is alone
// again, it goes back alone.
// prints: refused, and unharmed
// prints: the child says 5
// prints: it has ended: refused
// prints: alone again: went back
#include "live.h"

static void refused(int id, int why)
{
	volatile int own = 2;
	CHECK_ERR(rv_rollback(id), why);
	CHECK(own == 2);
}

int main(void)
{
	need_session();
	atomic_int *shared =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	int alone = checkpoint();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		await(&shared[0]);
		post(&shared[1], 5);
		_exit(0);
	}
	int both = checkpoint();
	refused(alone, EBUSY);
	forget(alone);
	say("refused, and unharmed");
	post(&shared[0], 1);
	say("the child says %d", await(&shared[1]));
	CHECK(waitpid(child, NULL, 0) == child);
	refused(both, ESRCH);
	forget(both);
	say("it has ended: refused");
	CHECK(munmap(shared, PAGE) == 0);
	int id = checkpoint();
	if (first_time(id))
		back(id);
	say("alone again: went back");
	return 0;
}
