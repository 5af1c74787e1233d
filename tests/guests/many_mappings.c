// A file that is written while hundreds of others are mapped, and many files mapped shared
// one after the other.
// covers: mmap pwrite64
#include "guest.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, MAPPINGS = 700, SHARED = 600 };

static int new_file(void)
{
	int fd = open("many_mappings.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && unlink("many_mappings.tmp") == 0);
	CHECK(ftruncate(fd, 3 * PAGE) == 0);
	return fd;
}

static char *map_shared(int fd)
{
	char *memory = mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

int main(void)
{
	int own = open("/proc/self/exe", O_RDONLY);
	CHECK(own >= 0);
	for (int i = 0; i < MAPPINGS; i++)
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, own, 0) != MAP_FAILED);
	int fd = new_file();
	char *memory = map_shared(fd);
	CHECK(pwrite(fd, "first", 5, 0) == 5 && pwrite(fd, "second", 6, 2 * PAGE - 3) == 6);
	say("%.5s %.6s", memory, memory + 2 * PAGE - 3);
	for (int i = 0; i < SHARED; i++) {
		int other = new_file();
		char *shown = map_shared(other);
		CHECK(pwrite(other, &i, sizeof i, PAGE) == sizeof i);
		int seen;
		memcpy(&seen, shown + PAGE, sizeof seen);
		CHECK(seen == i);
		CHECK(munmap(shown, 3 * PAGE) == 0 && close(other) == 0);
	}
	say("%.5s", memory);
	return 0;
}
