// Several checkpoints at a time, and rollbacks to them in any order: to the newest, past
// newer ones to an old one, and to one again and again. Those that were taken in the
// future that a rollback left are no more.
// prints: 1
// prints: 1 2
// prints: 1 2 3
// prints: 1 2 4
// prints: 1 5
// prints: 1 5 6
// prints: 1 5 7
// prints: 1 5 7 8
// prints: 9
// prints: all forgotten
#include "live.h"

static int path[8], length;

static void step(int number)
{
	path[length++] = number;
	for (int i = 0; i < length; i++)
		printf("%s%d", i ? " " : "", path[i]);
	putchar('\n');
}

int main(void)
{
	need_session();
	int ids[3];
	ids[0] = checkpoint();
	if (rv_rollbacks(ids[0]) == 0) {
		step(1);
		ids[1] = checkpoint();
		if (rv_rollbacks(ids[1]) == 0) {
			step(2);
			ids[2] = checkpoint();
			CHECK(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
			if (first_time(ids[2])) {
				step(3);
				back(ids[2]);
			}
			step(4);
			back(ids[1]);
		}
		CHECK(rv_rollbacks(ids[1]) == 1 && rv_rollbacks(ids[0]) == 0);
		step(5);
		int id = checkpoint();
		if (first_time(id)) {
			step(6);
			back(id);
		}
		step(7);
		// Discarding one leaves those before and after it, and no rollback brings it back.
		int later = checkpoint();
		CHECK(rv_rollbacks(id) == (first_time(later) ? 1 : -1));
		if (first_time(later)) {
			forget(id);
			CHECK_ERR(rv_rollback(id), ENOENT);
			step(8);
			back(later);
		}
		CHECK(length == 3);
		back(ids[0]);
	}
	CHECK(length == 0 && rv_rollbacks(ids[0]) == 1);
	step(9);
	forget(ids[0]);
	CHECK_ERR(rv_rollback(ids[0]), ENOENT);
	say("all forgotten");
	return 0;
}
