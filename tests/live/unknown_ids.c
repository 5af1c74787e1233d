// Ids that are none: never given, negative, discarded, discarded twice. The program goes
// on as if it had not asked, and its real checkpoints are as good as before.
// prints: refused 20 times
// prints: rolled back all the same
#include "live.h"
#include <limits.h>

static int refused;

// Both are right for a number that no checkpoint can have.
#define NOT_FOUND(call)                                                                    \
	do {                                                                               \
		errno = 0;                                                                 \
		CHECK((call) == -1 && (errno == ENOENT || (errno == EINVAL && number < 0)));     \
		refused++;                                                                 \
	} while (0)

int main(void)
{
	need_session();
	int id = checkpoint();
	if (!first_time(id)) {
		CHECK(refused == 0);
		say("rolled back all the same");
		return 0;
	}
	int gone = checkpoint();
	CHECK(rv_discard(gone) == 0);
	int numbers[] = {gone, -1, INT_MAX, INT_MIN, id + 100000};
	for (unsigned i = 0; i < COUNT(numbers); i++) {
		int number = numbers[i];
		NOT_FOUND(rv_discard(number));
		NOT_FOUND(rv_rollback(number));
		NOT_FOUND(rv_replay(number));
		NOT_FOUND(rv_rollbacks(number));
	}
	say("refused %d times", refused);
	back(id);
}
