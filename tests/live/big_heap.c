// A heap of 400 MB, of which 4 MB are written between checkpoint and rollback.
// prints: written, as it should be 0
// prints: written, as it should be 1
// prints: written, as it should be 2
// prints: 400 MB are as they were
#include "live.h"

#define TOTAL (400l << 20)
#define TOUCHED (4l << 20)

static uint64_t word_at(long offset)
{
	return (uint64_t)offset * 0x9e3779b97f4a7c15u + 1;
}

// The number of words that are not as the first pass wrote them.
static long changed(const char *heap)
{
	long count = 0;
	for (long at = 0; at < TOTAL; at += PAGE)
		count += *(const uint64_t *)(heap + at) != word_at(at);
	return count;
}

int main(void)
{
	need_session();
	char *heap = malloc(TOTAL);
	CHECK(heap);
	for (long at = 0; at < TOTAL; at += PAGE)
		*(uint64_t *)(heap + at) = word_at(at);
	int id = checkpoint();
	int count = rv_rollbacks(id);
	CHECK(changed(heap) == 0);
	// In pieces of 16 pages, spread over the heap, others each time.
	long pieces = TOUCHED / (16 * PAGE), apart = TOTAL / pieces / PAGE;
	for (long piece = 0; piece < pieces; piece++)
		memset(heap + (piece * apart + 16 * count) % (TOTAL / PAGE - 16) * PAGE, 0xa5, 16 * PAGE);
	if (count < 3) {
		CHECK(changed(heap) == TOUCHED / PAGE);
		say("written, as it should be %d", count);
		back(id);
	}
	// A later checkpoint holds only what was written since.
	int later = checkpoint();
	if (first_time(later)) {
		memset(heap, 1, TOUCHED);
		back(later);
	}
	CHECK(changed(heap) == TOUCHED / PAGE);
	forget(later);
	if (rv_rollbacks(id) == 3)
		back(id);
	CHECK(changed(heap) == TOUCHED / PAGE);
	say("400 MB are as they were");
	forget(id);
	return 0;
}
