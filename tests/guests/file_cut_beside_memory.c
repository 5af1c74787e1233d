// A file is cut and grows again whose mappings have lost parts: to other memory, to a hole, to
// another place. What lies there now keeps its content and its protection; the rest is zeros.
// covers: ftruncate mremap munmap mmap
#include "guest.h"
#include <sys/mman.h>

#define PAGE 4096
#define PAGES 6
#define WRITABLE (PROT_READ | PROT_WRITE)

static char *map(char *at, long pages, int protection, int flags, int fd, long first)
{
	char *mapped = mmap(at, pages * PAGE, protection, flags, fd, first * PAGE);
	CHECK(mapped != MAP_FAILED);
	return mapped;
}

// The first byte of each page, '-' where nothing can be read.
static void show(const char *name, const char *at, long pages)
{
	char line[64] = "";
	int through[2];
	CHECK(pipe(through) == 0);
	for (long page = 0; page < pages; page++) {
		char byte = '-';
		if (write(through[1], at + page * PAGE, 1) == 1)
			byte = *(const volatile char *)(at + page * PAGE);
		line[page] = byte == 0 ? '0' : byte;
	}
	close(through[0]);
	close(through[1]);
	say("%s: %s", name, line);
}

static int new_file(int of_memory)
{
	int fd = of_memory ? memfd_create("file", 0) : open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0);
	for (int page = 0; page < PAGES; page++)
		CHECK(pwrite(fd, &"abcdef"[page], 1, page * PAGE) == 1);
	return fd;
}

static void cut_and_show(int fd, long pages, const char *at, const char *elsewhere)
{
	CHECK(ftruncate(fd, pages * PAGE) == 0);
	show("cut", at, PAGES);
	CHECK(ftruncate(fd, PAGES * PAGE) == 0);
	show("grown", at, PAGES);
	if (elsewhere != NULL)
		show("elsewhere", elsewhere, 2);
}

static void try(int of_memory, int kind, long left)
{
	say("file of memory %d, kind %d, %ld pages left", of_memory, kind, left);
	int fd = new_file(of_memory);
	char *at = map(NULL, PAGES, WRITABLE, kind, fd, 0);
	at[0] = 'A';
	at[5 * PAGE] = 'F';
	char *other = map(at + PAGE, 1, WRITABLE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	*other = 'x';
	CHECK(munmap(at + 3 * PAGE, PAGE) == 0);
	cut_and_show(fd, left, at, NULL);
	*other = 'y';
	CHECK(mprotect(at + 4 * PAGE, PAGE, PROT_READ) == 0);
	CHECK(pwrite(fd, "g", 1, 4 * PAGE) == 1);
	show("written", at, PAGES);
	other = map(at + 3 * PAGE, 1, WRITABLE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	*other = 'z';
	cut_and_show(fd, left, at, NULL);
	// The first two pages that still show the file's end go away to another place.
	char *place = map(NULL, 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mremap(at + 5 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
	other = map(at + 5 * PAGE, 1, WRITABLE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	*other = 'v';
	place[0] = 'w';
	cut_and_show(fd, left, at, place);
	CHECK(munmap(place, 2 * PAGE) == 0 && munmap(at, PAGES * PAGE) == 0 && close(fd) == 0);
}

int main(void)
{
	for (int of_memory = 0; of_memory < 2; of_memory++)
		for (long left = 0; left < PAGES; left += 2) {
			try(of_memory, MAP_SHARED, left);
			try(of_memory, MAP_PRIVATE, left);
		}
	return 0;
}
