// Checkpoints that were taken on the way are passed again by a replay, and are as good
// afterwards as before; so is one that was discarded on the way as gone.
// prints: first
// prints: second
// prints: third
// prints: replayed
// prints: third
// prints: replayed
// prints: back at the second: second kept
#include "live.h"

int main(void)
{
	need_session();
	int first = checkpoint();
	say("first");
	int kept = checkpoint();
	if (rv_rollbacks(kept) == 2) {
		say("back at the second: second kept");
		return 0;
	}
	int is_first = rv_rollbacks(kept) == 0;
	if (is_first)
		say("second");
	int gone = checkpoint();
	forget(gone);
	say("third");
	again(first);
	CHECK_ERR(rv_rollbacks(gone), ENOENT);
	CHECK(rv_rollbacks(kept) == !is_first);
	again(kept);
	say("replayed");
	back(kept);
}
