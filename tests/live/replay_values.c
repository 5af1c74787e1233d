// What rv_rollbacks and rv_replaying say: first, in a replay, after a rollback, and in a
// replay after that.
// prints: rollbacks 0, replays seen 0
// prints: after the replay: rollbacks 0, replays seen 1
// prints: rollbacks 1, replays seen 0
// prints: after the replay: rollbacks 1, replays seen 1
// prints: rollbacks 2, replays seen 0
// prints: after the replay: rollbacks 2, replays seen 1
#include "live.h"

int main(void)
{
	need_session();
	CHECK(rv_replaying() == 0);
	int id = checkpoint();
	int seen = 0;
	int count = rv_rollbacks(id);
	say("rollbacks %d, replays seen %d", count, 0);
	int replaying = rv_replaying();
	CHECK(replaying == 0 || replaying == 1);
	seen += replaying;
	CHECK(rv_rollbacks(id) == count);
	CHECK(rv_replay(id) == 0);
	CHECK(rv_replaying() == 0);
	say("after the replay: rollbacks %d, replays seen %d", rv_rollbacks(id), seen);
	if (count < 2)
		back(id);
	return 0;
}
