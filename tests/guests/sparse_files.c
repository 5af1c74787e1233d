// Files much longer than what is in them, mapped whole: a heap with two views, and a file with a hole.
// covers: mmap memfd_create ftruncate
#include "guest.h"
#include <sys/mman.h>

#define HEAP_BYTES (1L << 40)
#define FILE_BYTES (1L << 37)

static char *map(int fd, long bytes, int protection, int kind)
{
	char *start = mmap(NULL, bytes, protection, kind | MAP_NORESERVE, fd, 0);
	CHECK(start != MAP_FAILED);
	return start;
}

static void heap(void)
{
	int fd = memfd_create("heap", 0);
	CHECK(fd >= 0 && ftruncate(fd, HEAP_BYTES) == 0);
	CHECK(pwrite(fd, "x", 1, 4096) == 1);
	char *read_view = map(fd, HEAP_BYTES, PROT_READ, MAP_SHARED);
	char *write_view = map(fd, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);
	write_view[5000] = 'y';
	say("%c%c %d", read_view[4096], read_view[5000], read_view[HEAP_BYTES - 1]);
	CHECK(close(fd) == 0);
}

static void file(void)
{
	int fd = open("sparse", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	CHECK(pwrite(fd, "begin", 5, 0) == 5);
	CHECK(pwrite(fd, "middle", 6, FILE_BYTES / 2) == 6);
	CHECK(pwrite(fd, "end", 3, FILE_BYTES - 3) == 3);
	char *shown = map(fd, FILE_BYTES, PROT_READ, MAP_PRIVATE);
	say("%.5s %.6s %.3s", shown, shown + FILE_BYTES / 2, shown + FILE_BYTES - 3);
	CHECK(munmap(shown, FILE_BYTES) == 0);
	char *shared = map(fd, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED);
	memcpy(shared + FILE_BYTES / 4, "more", 4);
	say("%.4s %.6s %.3s", shared + FILE_BYTES / 4, shared + FILE_BYTES / 2, shared + FILE_BYTES - 3);
	CHECK(close(fd) == 0 && unlink("sparse") == 0);
}

int main(void)
{
	heap();
	file();
	return 0;
}
