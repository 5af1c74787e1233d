// Memory that was moved to where other memory was at a checkpoint, and written by nobody since,
// goes back to where it was: what both have in common with the checkpoint is at two places.
// prints: ready
// prints: swapped 0
// prints: swapped 1
// prints: swapped 2
// prints: as it was
#include "live.h"

#define PAGES 64

static char *one, *other, *place;

static void move(char *from, char *to)
{
	CHECK(mremap(from, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static void check(char *first, char *second)
{
	for (int page = 0; page < PAGES; page++) {
		CHECK(first[page * PAGE] == page && first[page * PAGE + 7] == 1);
		CHECK(second[page * PAGE] == page && second[page * PAGE + 7] == 2);
	}
}

int main(void)
{
	need_session();
	one = map(PAGES * PAGE);
	other = map(PAGES * PAGE);
	place = map(PAGES * PAGE);
	for (int page = 0; page < PAGES; page++) {
		one[page * PAGE] = other[page * PAGE] = (char)page;
		one[page * PAGE + 7] = 1;
		other[page * PAGE + 7] = 2;
	}
	say("ready");
	int id = checkpoint();
	check(one, other);
	int round = rv_rollbacks(id);
	if (round < 3) {
		move(one, place);
		move(other, one);
		move(place, other);
		check(other, one);
		say("swapped %d", round);
		if (round == 1)
			again(id);
		back(id);
	}
	// One that is gone, with the other in its place.
	if (round == 3) {
		CHECK(munmap(one, PAGES * PAGE) == 0);
		move(other, one);
		back(id);
	}
	say("as it was");
	return 0;
}
