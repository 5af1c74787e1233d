// Lists of mappings: read in pieces of any length, at any place, they are one and the same;
// and memory that nobody is to use can be reserved wherever the lists show none.
// not-by: write-protection sums
// covers: mmap munmap mprotect read pread64 readv lseek
#include "guest.h"
#include <sys/mman.h>
#include <sys/uio.h>

#define LIST_BYTES (1 << 20)

static char whole[LIST_BYTES], parts[LIST_BYTES];

static size_t read_all(const char *path, char *list, size_t step)
{
	int file = open(path, O_RDONLY);
	CHECK(file >= 0);
	size_t bytes = 0;
	ssize_t got;
	while ((got = read(file, list + bytes, step)) > 0)
		bytes += got;
	CHECK(got == 0);
	CHECK(lseek(file, 0, SEEK_CUR) == (off_t)bytes);
	close(file);
	list[bytes] = 0;
	return bytes;
}

static void check_pieces(void)
{
	size_t bytes = read_all("/proc/self/maps", whole, sizeof whole - 1);
	for (size_t step = 1; step < 5000; step = step * 3 + 1) {
		CHECK(read_all("/proc/self/maps", parts, step) == bytes);
		CHECK(memcmp(whole, parts, bytes) == 0);
	}
	int folder = open("/proc/self", O_RDONLY | O_DIRECTORY);
	int file = openat(folder, "maps", O_RDONLY);
	CHECK(file >= 0);
	for (size_t at = 0; at < bytes; at += 777) {
		ssize_t got = pread(file, parts, 100, at);
		CHECK(got > 0 && memcmp(parts, whole + at, got) == 0);
	}
	CHECK(pread(file, parts, 100, bytes + 1) == 0);
	CHECK(lseek(file, 50, SEEK_SET) == 50);
	struct iovec vectors[3] = {{parts, 7}, {parts + 7, 0}, {parts + 7, 20}};
	CHECK(readv(file, vectors, 3) == 27 && memcmp(parts, whole + 50, 27) == 0);
	CHECK(read(file, parts, 10) == 10 && memcmp(parts, whole + 77, 10) == 0);
	close(file);
	close(folder);
	CHECK(read_all("/proc/self/smaps", parts, 4096) > bytes);
	say("pieces agree");
}

// All that no line names, far from where the program and its libraries are.
static void check_holes(void)
{
	uintptr_t end = 0x590000000000, last = 0x720000000000;
	int count = 0;
	for (char *line = whole; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		uintptr_t from, to;
		CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2);
		CHECK(to <= end || from >= last);
		count++;
	}
	CHECK(count > 3);
	void *hole = (void *)end;
	size_t bytes = last - end;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	CHECK(mmap(hole, bytes, PROT_NONE, flags, -1, 0) == hole);
	CHECK(mprotect(hole, bytes, PROT_NONE) == 0);
	// The program goes on, though all of that is reserved.
	CHECK(getpid() > 0);
	CHECK(munmap(hole, bytes) == 0);
	say("reserved");
}

int main(void)
{
	check_pieces();
	check_holes();
	return 0;
}
