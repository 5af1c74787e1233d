// Follows a pointer in a block that nobody has filled.
// options: --on-crash=rollback:9 --recover=zero
// prints: there is nobody behind it
// prints: all is zero
// says: so that allocations are filled with zeros
#include "recover.h"

#define LONGEST 5000
#define STEP 37

struct node {
	// An allocator writes there, in what is free.
	char text[48];
	struct node *next;
};

// Blocks of all lengths that hold something else, twice, as some are kept aside.
static void leave_traces(void)
{
	static char *all[2 * LONGEST / STEP + 8];
	size_t count = 0;
	for (size_t bytes = 8; bytes < LONGEST; bytes += STEP) {
		all[count] = allocate(MALLOC, bytes);
		fill(all[count++], 'A', bytes);
		all[count] = allocate(MALLOC, bytes);
		fill(all[count++], 'A', bytes);
	}
	while (count)
		release(all[--count]);
	char *block = allocate(MALLOC, sizeof(struct node));
	fill(block, 'A', sizeof(struct node));
	release(block);
}

int main(void)
{
	begin();
	leave_traces();
	checkpoint();
	struct node *volatile head = allocate(MALLOC, sizeof *head);
	int count = 0;
	for (struct node *volatile node = head->next; node; node = node->next)
		count++;
	CHECK(count == 0);
	say("there is nobody behind it");
	for (enum kind kind = MALLOC; kind < KINDS; kind++) {
		leave_traces();
		for (size_t bytes = 16; bytes < LONGEST; bytes += STEP) {
			char *block = allocate(kind, bytes);
			CHECK(is_full(block, bytes, 0));
			// What grows is what it was, and zeros.
			fill(block, 'B', bytes);
			block = realloc(block, 3 * bytes);
			CHECK(block && is_full(block, bytes, 'B') && is_full(block + bytes, 2 * bytes, 0));
			fill(block, 'B', 3 * bytes);
			release(block);
		}
	}
	// Much that nobody has touched takes no memory.
	volatile size_t much = (size_t)1 << 30;
	char *large = malloc(much);
	CHECK(!large || large[much - 1] == 0);
	release(large);
	say("all is zero");
	survived();
	return 0;
}
