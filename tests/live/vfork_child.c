// Inside of a child of vfork, which has its parent's memory, nothing can be taken or
// gone back to; afterwards everything can.
// prints: refused
// prints: the parent went back
#include "live.h"

int main(void)
{
	need_session();
	int id = checkpoint();
	if (!first_time(id)) {
		say("the parent went back");
		return 0;
	}
	pid_t child = vfork();
	CHECK(child >= 0);
	if (child == 0) {
		int taken = rv_checkpoint(), error = errno;
		int result = rv_rollback(id);
		_exit(taken == -1 && error == EBUSY && result == -1 && errno == EBUSY ? 0 : 1);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(status == 0);
	say("refused");
	back(id);
}
