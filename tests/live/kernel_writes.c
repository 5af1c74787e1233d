// Memory that the kernel wrote since a checkpoint is what it was after a rollback, and
// what the kernel wrote after a replay: read, readv, getrandom, stat, into pages that the
// program did not touch itself.
// prints: untouched
// prints: untouched
// prints: replayed
#include "live.h"
#include <sys/random.h>
#include <sys/uio.h>

#define PAGES 64

int main(void)
{
	need_session();
	char *heap = map(PAGES * PAGE), *fresh = map(PAGES * PAGE);
	memset(heap, 'h', PAGES * PAGE);
	int zeros = open("/dev/zero", O_RDONLY);
	CHECK(zeros >= 0);
	int id = checkpoint();
	int count = rv_rollbacks(id);
	CHECK(is_full(heap, PAGES * PAGE, 'h') && is_full(fresh, PAGES * PAGE, 0));
	CHECK(read(zeros, heap, 8 * PAGE) == 8 * PAGE);
	struct iovec parts[2] = {{heap + 10 * PAGE + 7, PAGE}, {heap + 20 * PAGE - 3, 5}};
	CHECK(readv(zeros, parts, 2) == PAGE + 5);
	CHECK(getrandom(heap + 30 * PAGE, 256, 0) == 256);
	CHECK(getrandom(fresh + 30 * PAGE, 256, 0) == 256);
	CHECK(fstat(zeros, (struct stat *)(heap + 40 * PAGE)) == 0);
	if (count < 2) {
		say("untouched");
		back(id);
	}
	uint64_t sum = hash_bytes(heap, PAGES * PAGE);
	again(id);
	CHECK(hash_bytes(heap, PAGES * PAGE) == sum);
	CHECK(is_full(heap, 8 * PAGE, 0) && is_full(heap + 8 * PAGE, 2 * PAGE + 7, 'h'));
	say("replayed");
	return 0;
}
