// A small process that takes one checkpoint after the other is forked a few times; then the
// pages that were written are saved. All that were kept have what was there.
// prints: the last ones are no copies
// prints: back to each of them
#include "live.h"
#include "shadows.h"

#define ROUNDS 48
#define KEPT_EVERY 4
#define PAGES 16

static volatile int marker;

// What the pages hold after a round.
static void expected(int round, int values[PAGES])
{
	for (int page = 0; page < PAGES; page++)
		values[page] = 0;
	for (int i = 0; i <= round; i++)
		values[i * 7 % PAGES] = i + 1;
}

static void verify(volatile char *memory, int round)
{
	int values[PAGES];
	expected(round, values);
	for (int page = 0; page < PAGES; page++)
		CHECK(*(volatile int *)(memory + page * PAGE) == values[page]);
}

int main(void)
{
	need_session();
	volatile char *memory = map(PAGES * PAGE);
	int ids[ROUNDS], saved = 0;
	for (int round = 0; round < ROUNDS; round++) {
		*(volatile int *)(memory + round * 7 % PAGES * PAGE) = round + 1;
		marker = 2;
		int file = open("/dev/null", O_RDONLY);
		ids[round] = checkpoint();
		verify(memory, round);
		if (!first_time(ids[round])) {
			if (round >= KEPT_EVERY)
				back(ids[round - KEPT_EVERY]);
			say("back to each of them");
			return 0;
		}
		marker = 3;
		// What keeps it is made now, if it is no copy.
		close(file);
		if (round % KEPT_EVERY != 0) {
			int counts[4] = {0};
			count_markers(&marker, counts);
			// Copies of before have this too, so only their number tells.
			saved += counts[3] > 0;
			forget(ids[round]);
		}
	}
	CHECK(saved > 0 || !can_save());
	say("the last ones are no copies");
	back(ids[ROUNDS - KEPT_EVERY]);
}
