// The same changes of mappings are made again by a replay, and are there in the
// present: mapped, unmapped, protected, moved, grown.
// prints: begin
// prints: made once
// prints: replayed
#include "live.h"

int main(void)
{
	need_session();
	char *gone = map(4 * PAGE), *mute = map(PAGE), *small = map(4 * PAGE), *empty = map(PAGE);
	memset(gone, 1, 4 * PAGE);
	memset(mute, 2, PAGE);
	memset(small, 3, 4 * PAGE);
	memset(empty, 4, PAGE);
	// What prints allocates first.
	say("begin");
	char *end = sbrk(0);
	int id = checkpoint();

	char *new = map(16 * PAGE);
	memset(new, 5, 16 * PAGE);
	CHECK(munmap(gone, 4 * PAGE) == 0);
	CHECK(mprotect(mute, PAGE, PROT_READ) == 0);
	char *large = mremap(small, 4 * PAGE, 1024 * PAGE, MREMAP_MAYMOVE);
	CHECK(large != MAP_FAILED);
	large[1023 * PAGE] = 6;
	CHECK(sbrk(64 * PAGE) == end);
	memset(end, 7, 64 * PAGE);
	CHECK(madvise(empty, PAGE, MADV_DONTNEED) == 0);
	say("made once");

	for (int i = 0; i < 2; i++) {
		again(id);
		CHECK(is_full(new, 16 * PAGE, 5));
		CHECK(!is_mapped(gone));
		CHECK(is_full(mute, PAGE, 2));
		CHECK(is_full(large, 4 * PAGE, 3) && large[1023 * PAGE] == 6);
		CHECK(sbrk(0) == end + 64 * PAGE && is_full(end, 64 * PAGE, 7));
		CHECK(is_full(empty, PAGE, 0));
	}
	forget(id);
	// The present is real: what was unmapped can be mapped, what was mapped unmapped.
	CHECK(mmap(gone, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == gone);
	CHECK(munmap(new, 16 * PAGE) == 0 && munmap(large, 1024 * PAGE) == 0);
	CHECK(sbrk(-64 * PAGE) == end + 64 * PAGE);
	say("replayed");
	return 0;
}
