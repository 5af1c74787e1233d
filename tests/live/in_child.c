// Children take checkpoints of their own, at the same time, and go back without their
// parent. The parent's checkpoints are not theirs.
// prints: child 0: exit 40
// prints: child 1: exit 41
// prints: child 2: exit 42
// prints: the parent went back
#include "live.h"

static int live_on(int number)
{
	int rounds = 0;
	for (int i = 0; i < 20; i++) {
		int done = 0;
		int id = checkpoint();
		CHECK(done == 0);
		done = 1;
		if (first_time(id))
			back(id);
		rounds += 2;
		again(id);
		CHECK(done == 1);
		forget(id);
	}
	return rounds + number;
}

int main(void)
{
	need_session();
	int before = checkpoint();
	if (!first_time(before)) {
		say("the parent went back");
		return 0;
	}
	pid_t children[3];
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0) {
			CHECK(rv_rollback(before) == -1);
			CHECK(rv_replay(before) == -1);
			_exit(live_on(i));
		}
	}
	for (int i = 0; i < 3; i++) {
		char name[16];
		snprintf(name, sizeof name, "child %d", i);
		reap(name, children[i]);
	}
	back(before);
}
