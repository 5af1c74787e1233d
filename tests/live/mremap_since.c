// What was one mapping at a checkpoint can be moved, grown and shrunk as one after going back,
// though parts of its place were unmapped and mapped anew since.
// prints: ready
// prints: moved 0
// prints: grown 0
// prints: again
// prints: moved 1
// prints: grown 1
#include "live.h"

#define PAGES 64

// Unmaps all of it, and maps a part in its middle again.
static void replace_middle(char *at)
{
	CHECK(munmap(at, PAGES * PAGE) == 0);
	char *middle = at + 16 * PAGE;
	CHECK(mmap(middle, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	      middle);
	memset(middle, 9, 16 * PAGE);
}

static char *resized(char *at, size_t from, size_t to, int flags)
{
	char *moved = mremap(at, from * PAGE, to * PAGE, flags);
	CHECK(moved != MAP_FAILED);
	return moved;
}

int main(void)
{
	need_session();
	// There is something behind each but the last.
	char *room = map(1024 * PAGE);
	char *moving = room, *growing = room + 256 * PAGE, *shrinking = room + 768 * PAGE;
	CHECK(munmap(moving + PAGES * PAGE, PAGE) == 0);
	CHECK(munmap(growing + PAGES * PAGE, 128 * PAGE) == 0);
	CHECK(munmap(growing - PAGE, PAGE) == 0 && munmap(shrinking - PAGE, PAGE) == 0);
	memset(moving, 1, PAGES * PAGE);
	memset(growing, 2, PAGES * PAGE);
	memset(shrinking, 3, PAGES * PAGE);
	say("ready");
	int id = checkpoint();

	char *moved = resized(moving, PAGES, 4 * PAGES, MREMAP_MAYMOVE);
	CHECK(moved != moving && !is_mapped(moving));
	CHECK(is_full(moved, PAGES * PAGE, 1) && is_full(moved + PAGES * PAGE, 3 * PAGES * PAGE, 0));
	memset(moved, 4, 4 * PAGES * PAGE);
	say("moved %d", rv_rollbacks(id));
	CHECK(resized(growing, PAGES, 2 * PAGES, 0) == growing);
	CHECK(is_full(growing, PAGES * PAGE, 2) && is_full(growing + PAGES * PAGE, PAGES * PAGE, 0));
	CHECK(resized(shrinking, PAGES, 8, MREMAP_MAYMOVE) == shrinking);
	CHECK(is_full(shrinking, 8 * PAGE, 3) && !is_mapped(shrinking + 8 * PAGE));
	char *fixed = mremap(shrinking, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, moved);
	CHECK(fixed == moved && is_full(fixed, 8 * PAGE, 3) && fixed[8 * PAGE] == 4);
	say("grown %d", rv_rollbacks(id));

	CHECK(munmap(moved, 4 * PAGES * PAGE) == 0 && munmap(growing, 2 * PAGES * PAGE) == 0);
	CHECK(mmap(moving, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == moving);
	CHECK(mmap(shrinking, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	      shrinking);
	replace_middle(moving);
	replace_middle(growing);
	replace_middle(shrinking);
	if (first_time(id)) {
		again(id);
		CHECK(is_full(moving + 16 * PAGE, 16 * PAGE, 9));
		say("again");
		back(id);
	}
	return 0;
}
