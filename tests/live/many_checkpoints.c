// Two hundred checkpoints at a time, of which every other one is discarded, and ten
// thousand that are discarded at once, leave no descriptors, children or memory.
// prints: went back to 100 of 200
// prints: ten thousand
// prints: nothing is left
#include "live.h"

#define MANY 200

static int state;

int main(void)
{
	need_session();
	int lowest = dup(0);
	CHECK(lowest >= 0);
	close(lowest);

	// What outlives the rollbacks: how far they have come.
	int file = open("progress", O_RDWR | O_CREAT | O_TRUNC, 0600);
	int progress = MANY - 1, ids[MANY];
	CHECK(file >= 0 && pwrite(file, &progress, sizeof progress, 0) == sizeof progress);
	for (int i = 0; i < MANY; i++) {
		state = i;
		ids[i] = checkpoint();
		CHECK(state == i);
		if (!first_time(ids[i])) {
			CHECK(i % 2 == 1);
			CHECK(pread(file, &progress, sizeof progress, 0) == sizeof progress && progress == i);
			break;
		}
		state = -1;
	}
	CHECK(pread(file, &progress, sizeof progress, 0) == sizeof progress);
	if (progress == MANY - 1 && state == -1)
		for (int i = 0; i < MANY; i += 2)
			forget(ids[i]);
	// From the newest of those that are left to the oldest.
	int next = state == -1 ? progress : progress - 2;
	if (next >= 1) {
		CHECK(pwrite(file, &next, sizeof next, 0) == sizeof next);
		back(ids[next]);
	}
	say("went back to %d of %d", MANY / 2, MANY);
	forget(ids[1]);
	for (int i = 0; i < 10000; i++)
		forget(checkpoint());
	say("ten thousand");
	CHECK_ERR(waitpid(-1, NULL, WNOHANG | __WALL), ECHILD);
	CHECK(close(file) == 0 && dup(0) == lowest);
	say("nothing is left");
	return 0;
}
