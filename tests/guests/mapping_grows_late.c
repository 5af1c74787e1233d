// A mapping grows over what was written to its file since it was made, which no mapping showed.
// covers: mremap
#include "guest.h"
#include <sys/mman.h>

enum { PAGE = 4096 };

static void fill(int fd, char letter, off_t at)
{
	char page[PAGE];
	memset(page, letter, PAGE);
	CHECK(pwrite(fd, page, PAGE, at) == PAGE);
}

static char *map(int fd, int protection, int flags)
{
	char *memory = mmap(NULL, PAGE, protection, flags, fd, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static char *grow(char *memory, size_t bytes)
{
	memory = mremap(memory, PAGE, bytes, MREMAP_MAYMOVE);
	CHECK(memory != MAP_FAILED);
	return memory;
}

// The file was one page long when it was mapped.
static void longer(void)
{
	int fd = open("longer", O_RDWR | O_CREAT | O_TRUNC, 0600);
	fill(fd, 'a', 0);
	const char *view = map(fd, PROT_READ, MAP_SHARED);
	fill(fd, 'b', PAGE);
	view = grow((char *)view, 2 * PAGE);
	say("longer: %c%c", view[PAGE - 1], view[PAGE]);
}

// The file was as long then, and held something else.
static void changed(const char *name, int protection, int flags)
{
	int fd = open("changed", O_RDWR | O_CREAT | O_TRUNC, 0600);
	fill(fd, 'a', 0);
	fill(fd, 'b', PAGE);
	fill(fd, 'c', 2 * PAGE);
	char *memory = map(fd, protection, flags);
	fill(fd, 'd', PAGE);
	memory = grow(memory, 3 * PAGE);
	say("changed, %s: %c%c%c", name, memory[0], memory[PAGE], memory[2 * PAGE]);
}

// Another process made it longer, where it is not mapped; two mappings show the same then.
static void longer_by_another(void)
{
	int fd = open("another", O_RDWR | O_CREAT | O_TRUNC, 0600);
	fill(fd, 'a', 0);
	int begin[2];
	CHECK(pipe(begin) == 0);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		CHECK(read(begin[0], &byte, 1) == 1);
		fill(fd, 'b', PAGE);
		_exit(0);
	}
	char *memory = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	char *view = map(fd, PROT_READ, MAP_SHARED);
	CHECK(write(begin[1], "", 1) == 1);
	reap("child", child);
	memory = grow(memory, 2 * PAGE);
	view = grow(view, 2 * PAGE);
	memory[PAGE] = 'c';
	say("by another: %c%c%c", memory[0], view[PAGE], view[PAGE + 1]);
}

int main(void)
{
	longer();
	changed("shared", PROT_READ, MAP_SHARED);
	changed("shared and written", PROT_READ | PROT_WRITE, MAP_SHARED);
	changed("private", PROT_READ | PROT_WRITE, MAP_PRIVATE);
	longer_by_another();
	return 0;
}
