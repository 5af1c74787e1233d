// Mappings made, removed, moved, protected and emptied since a checkpoint are what they
// were after a rollback.
// prints: mmap
// prints: munmap
// prints: a fixed mapping over another
// prints: mprotect
// prints: mremap grows and moves
// prints: mremap to a fixed place
// prints: brk
// prints: madvise
// prints: a grown stack
// prints: malloc
#include "live.h"

static void fill(char *at, size_t length, char byte)
{
	memset(at, byte, length);
}

static void made(void)
{
	// The address outlives the rollback in a file: its content stays.
	int file = open("address", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	char *new = NULL;
	int id = checkpoint();
	if (first_time(id)) {
		new = map(8 * PAGE);
		fill(new, 8 * PAGE, 1);
		CHECK(pwrite(file, &new, sizeof new, 0) == sizeof new);
		back(id);
	}
	CHECK(new == NULL);
	CHECK(pread(file, &new, sizeof new, 0) == sizeof new);
	for (int i = 0; i < 8; i++)
		CHECK(!is_mapped(new + i * PAGE));
	forget(id);
	close(file);
	say("mmap");
}

static void removed(void)
{
	char *old = map(8 * PAGE);
	fill(old, 8 * PAGE, 2);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(munmap(old + 2 * PAGE, 3 * PAGE) == 0);
		CHECK(!is_mapped(old + 2 * PAGE));
		back(id);
	}
	CHECK(is_full(old, 8 * PAGE, 2));
	fill(old, 8 * PAGE, 3);
	forget(id);
	say("munmap");
}

static void covered(void)
{
	char *old = map(4 * PAGE);
	fill(old, 4 * PAGE, 4);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(mmap(old + PAGE, PAGE, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
		      old + PAGE);
		back(id);
	}
	CHECK(is_full(old, 4 * PAGE, 4));
	fill(old, 4 * PAGE, 5);
	forget(id);
	say("a fixed mapping over another");
}

static void protected(void)
{
	char *old = map(4 * PAGE);
	fill(old, 4 * PAGE, 6);
	CHECK(mprotect(old + 3 * PAGE, PAGE, PROT_READ) == 0);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(mprotect(old, 2 * PAGE, PROT_NONE) == 0);
		CHECK(mprotect(old + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
		fill(old + 3 * PAGE, PAGE, 7);
		back(id);
	}
	CHECK(is_full(old, 4 * PAGE, 6));
	fill(old, 3 * PAGE, 7);
	// Still read-only: the kernel cannot write there either.
	int ends[2];
	CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
	CHECK_ERR(read(ends[0], old + 3 * PAGE, 1), EFAULT);
	close(ends[0]);
	close(ends[1]);
	forget(id);
	say("mprotect");
}

static void moved(void)
{
	char *old = map(4 * PAGE);
	// Something stands behind it, so that it has to move to grow.
	char *behind = map(PAGE);
	fill(old, 4 * PAGE, 8);
	(void)behind;
	int id = checkpoint();
	if (first_time(id)) {
		char *new = mremap(old, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
		CHECK(new != MAP_FAILED);
		fill(new, 64 * PAGE, 9);
		back(id);
	}
	CHECK(is_full(old, 4 * PAGE, 8));
	fill(old, 4 * PAGE, 10);
	forget(id);
	say("mremap grows and moves");
}

static void moved_to_place(void)
{
	char *old = map(4 * PAGE), *place = map(4 * PAGE);
	fill(old, 4 * PAGE, 11);
	fill(place, 4 * PAGE, 12);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(mremap(old, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
		CHECK(is_full(place, 4 * PAGE, 11) && !is_mapped(old));
		back(id);
	}
	CHECK(is_full(old, 4 * PAGE, 11) && is_full(place, 4 * PAGE, 12));
	forget(id);
	say("mremap to a fixed place");
}

static void broken(void)
{
	char *first = sbrk(2 * PAGE);
	CHECK(first != (char *)-1);
	fill(first, 2 * PAGE, 13);
	char *end = sbrk(0);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(sbrk(100 * PAGE) == end);
		fill(end, 100 * PAGE, 14);
		fill(first, 2 * PAGE, 14);
		back(id);
	}
	CHECK(sbrk(0) == end && is_full(first, 2 * PAGE, 13));
	CHECK(sbrk(4 * PAGE) == end && is_full(end, 4 * PAGE, 0));
	forget(id);
	id = checkpoint();
	if (first_time(id)) {
		CHECK(brk(first) == 0);
		back(id);
	}
	CHECK(sbrk(0) == end + 4 * PAGE && is_full(first, 2 * PAGE, 13));
	forget(id);
	say("brk");
}

static void emptied(void)
{
	char *old = map(8 * PAGE);
	fill(old, 4 * PAGE, 15);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(madvise(old, 8 * PAGE, MADV_DONTNEED) == 0);
		CHECK(is_full(old, 8 * PAGE, 0));
		fill(old + 6 * PAGE, PAGE, 16);
		back(id);
	}
	CHECK(is_full(old, 4 * PAGE, 15) && is_full(old + 4 * PAGE, 4 * PAGE, 0));
	forget(id);
	say("madvise");
}

static __attribute__((noinline)) long dive(int depth)
{
	volatile char room[1000];
	room[0] = room[999] = (char)depth;
	return depth == 0 ? 0 : dive(depth - 1) + room[0] - room[999] + 1;
}

static void deep(void)
{
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(dive(2000) == 2000);
		back(id);
	}
	CHECK(dive(2000) == 2000);
	forget(id);
	say("a grown stack");
}

static void allocated(void)
{
	static void *kept[500], *more[500];
	for (int i = 0; i < 500; i++)
		CHECK((kept[i] = calloc(1, 1 + (size_t)i * 37 % 5000)) != NULL);
	int id = checkpoint();
	if (first_time(id)) {
		for (int i = 0; i < 500; i++) {
			CHECK((more[i] = malloc(200000)) != NULL);
			memset(more[i], 1, 200000);
			if (i % 2)
				free(kept[i]);
		}
		back(id);
	}
	for (int i = 0; i < 500; i++) {
		CHECK(more[i] == NULL && *(char *)kept[i] == 0);
		free(kept[i]);
	}
	forget(id);
	say("malloc");
}

int main(void)
{
	need_session();
	made();
	removed();
	covered();
	protected();
	moved();
	moved_to_place();
	broken();
	emptied();
	deep();
	allocated();
	return 0;
}
