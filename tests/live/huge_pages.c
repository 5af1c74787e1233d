// Memory in huge pages, of which a few bytes are written since, and of which parts are
// protected and unmapped.
// prints: went back 0
// prints: went back 1
// prints: went back 2
#include "live.h"

#define SIZE (32l << 20)

int main(void)
{
	need_session();
	char *at = (char *)(((uintptr_t)map(SIZE + (2l << 20)) + (2l << 20) - 1) & -(2l << 20));
	// Where there are none, ordinary ones do.
	madvise(at, SIZE, MADV_HUGEPAGE);
	for (long i = 0; i < SIZE; i += 512)
		at[i] = (char)(i / 512 % 251);
	int id = checkpoint();
	int count = rv_rollbacks(id);
	for (long i = 0; i < SIZE; i += 512)
		CHECK(at[i] == (char)(i / 512 % 251));
	say("went back %d", count);
	for (long i = 12345 + count * 999; i < SIZE; i += 3l << 20)
		memset(at + i, 0x5a, 100);
	if (count == 0)
		back(id);
	if (count == 1) {
		CHECK(mprotect(at + (4l << 20) + PAGE, 3 * PAGE, PROT_NONE) == 0);
		CHECK(munmap(at + (9l << 20) + PAGE, (4l << 20)) == 0);
		CHECK(madvise(at + (20l << 20), 2l << 20, MADV_DONTNEED) == 0);
		back(id);
	}
	return 0;
}
