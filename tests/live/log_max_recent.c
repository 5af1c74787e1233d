// With a limit for the log, a checkpoint whose log has not come to the recorder yet is kept:
// only what was dropped makes one useless.
// options: --log-max=64M
// prints: all are there
#include "live.h"

#define ROUNDS 300

int main(void)
{
	need_session();
	for (int round = 0; round < ROUNDS; round++) {
		int id = checkpoint();
		// Some time in which the recorder may look.
		usleep(round % 8 * 500);
		CHECK(rv_rollbacks(id) == 0);
		forget(id);
	}
	say("all are there");
	return 0;
}
