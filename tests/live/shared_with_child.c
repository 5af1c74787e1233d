// A program whose memory another process shares is told that it cannot go back, at the
// checkpoint or at the rollback, and goes on. When the other has gone, it can.
// prints: refused, and unharmed
// prints: the child says 5
// prints: alone again: went back
#include "live.h"

int main(void)
{
	need_session();
	atomic_int *shared =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		await(&shared[0]);
		post(&shared[1], 5);
		_exit(0);
	}
	int own = 1;
	int id = rv_checkpoint();
	if (id >= 0) {
		own = 2;
		CHECK_ERR(rv_rollback(id), EBUSY);
		CHECK(own == 2);
		forget(id);
	} else {
		CHECK(errno == EBUSY);
	}
	say("refused, and unharmed");
	post(&shared[0], 1);
	say("the child says %d", await(&shared[1]));
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(munmap(shared, PAGE) == 0);
	id = checkpoint();
	if (first_time(id))
		back(id);
	say("alone again: went back");
	return 0;
}
