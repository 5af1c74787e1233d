// A file that a process has mapped both ways: its private view shows what it stores through the shared one, and what calls do to the
// file, but for the pages that it has written itself.
// covers: mmap fallocate madvise pwrite64
#define _GNU_SOURCE
#include "guest.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#define PAGES 64
#define BYTES (PAGES * 4096)

static volatile char *map(int fd, int how)
{
	void *view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, how, fd, 0);
	CHECK(view != MAP_FAILED);
	return view;
}

static void both_ways(int private_first)
{
	int fd = memfd_create("both", 0);
	CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
	volatile char *private = private_first ? map(fd, MAP_PRIVATE) : NULL;
	if (private_first)
		private[3 * 4096] = 33;
	volatile char *shared = map(fd, MAP_SHARED);
	if (!private_first)
		private = map(fd, MAP_PRIVATE);
	say("written before: %d", private[3 * 4096]);

	for (int round = 1; round < 4; round++) {
		shared[0] = round;
		CHECK(poll(NULL, 0, 1) == 0);
		shared[1] = 10 * round;
		say("stored: %d %d", private[0], private[1]);
	}
	CHECK(pwrite(fd, "\7", 1, 4096) == 1);
	say("by a call: %d", private[4096]);
	shared[4096] = 8;
	say("then stored: %d", private[4096]);
	private[2 * 4096] = 22;
	shared[2 * 4096] = shared[3 * 4096] = 9;
	say("its own: %d, %d", private[2 * 4096], private[3 * 4096]);

	for (int page = 4; page < PAGES; page++)
		shared[page * 4096] = page;
	say("pages: %d %d", private[5 * 4096], private[20 * 4096]);
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5 * 4096, 4096) == 0);
	CHECK(madvise((void *)(shared + 20 * 4096), 4096, MADV_REMOVE) == 0);
	say("holes: %d %d, %d %d", private[5 * 4096], private[20 * 4096], shared[5 * 4096], shared[20 * 4096]);
	shared[5 * 4096] = 55;
	say("filled: %d", private[5 * 4096]);
	CHECK(munmap((void *)private, BYTES) == 0 && munmap((void *)shared, BYTES) == 0 && close(fd) == 0);
}

// What is behind moves, where the file system can do it.
static void moved_content(void)
{
	char name[] = "moved-XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, BYTES) == 0);
	volatile char *shared = map(fd, MAP_SHARED);
	for (int page = 0; page < PAGES; page++)
		shared[page * 4096] = page;
	int inserted = fallocate(fd, FALLOC_FL_INSERT_RANGE, 4096, 2 * 4096);
	int removed = inserted == 0 && fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) == 0;
	int is_right = shared[0] == 0 && shared[2 * 4096] == 1 && shared[40 * 4096] == 39;
	CHECK(inserted != 0 || removed);
	say("moved: %d", inserted != 0 || is_right);
	CHECK(munmap((void *)shared, BYTES) == 0 && close(fd) == 0);
}

// Of a large file that was mapped before, holes are holes.
static void holes_of_large_files(void)
{
	const size_t bytes = 128 << 20, place = 64 << 20;
	int fd = memfd_create("large", 0);
	CHECK(fd >= 0 && ftruncate(fd, bytes) == 0);
	for (int round = 0; round < 2; round++) {
		volatile char *view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(view != MAP_FAILED);
		say("large: %d %d", view[place], view[place + 65536]);
		view[place] = view[place + 65536] = 1;
		CHECK(munmap((void *)view, bytes) == 0);
		CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place, 4096) == 0);
	}
	CHECK(close(fd) == 0);
}

int main(void)
{
	both_ways(0);
	both_ways(1);
	moved_content();
	holes_of_large_files();
	return 0;
}
