// Writes a few bytes behind the ends of blocks of all kinds, over a neighbour with a pointer.
// options: --on-crash=rollback:9 --recover=pad
// prints: all neighbours are well
// says: so that allocations have 256 bytes more
#include "recover.h"

#define BYTES 24
#define BEHIND 200

int main(void)
{
	begin();
	// Near the allocator's code, at the checkpoint and not where it crashes.
	size_t much = (size_t)64 << 20;
	void *near = mmap(NULL, much, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(near != MAP_FAILED);
	checkpoint();
	CHECK(munmap(near, much) == 0);
	long sum = 0;
	for (enum kind kind = MALLOC; kind < KINDS; kind++) {
		char *block = allocate(kind, BYTES);
		struct named *neighbour = allocate(MALLOC, sizeof *neighbour);
		*neighbour = (struct named){"a neighbour", (long)kind};
		seen = neighbour;
		fill(block, 'A', BYTES + BEHIND);
		sum += seen->text[0] + seen->value;
		release(neighbour);
		release(block);
	}
	CHECK(sum == 'a' * KINDS + KINDS * (KINDS - 1) / 2);
	// What asks for too much gets nothing, as before.
	volatile size_t most = SIZE_MAX - 16;
	CHECK(malloc(most) == NULL && calloc(most, 2) == NULL && calloc(most, 1) == NULL);
	CHECK(realloc(NULL, most) == NULL && memalign(64, most) == NULL);
	say("all neighbours are well");
	survived();
	return 0;
}
