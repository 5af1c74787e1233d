// A file of memory, larger than what there is, of which a part is set aside by fallocate(2): its
// mappings show zeros until something is stored. One that was written to shows that.
// covers: memfd_create fallocate lseek mmap
#include "guest.h"
#include <sys/mman.h>

#define BYTES (64UL << 30)
#define PART (4UL << 20)

static unsigned char *map(int fd, off_t offset)
{
	unsigned char *memory = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static void show(const char *name, const unsigned char *memory)
{
	say("%s: %d %d %d", name, memory[0], memory[4096], memory[PART - 1]);
}

int main(void)
{
	int fd = memfd_create("aside", MFD_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
	CHECK(fallocate(fd, 0, 0, PART) == 0);
	CHECK(lseek(fd, 12345, SEEK_SET) == 12345);
	unsigned char *one = map(fd, 0), *other = map(fd, 0);
	say("place %ld", (long)lseek(fd, 0, SEEK_CUR));
	show("set aside", one);
	other[4096] = 7;
	show("stored to", one);

	int written = memfd_create("written", MFD_CLOEXEC);
	CHECK(written >= 0 && ftruncate(written, 2 * PART) == 0);
	CHECK(fallocate(written, 0, 0, PART) == 0);
	CHECK(pwrite(written, "x", 1, 4096) == 1);
	show("written to", map(written, 0));
	CHECK(fallocate(written, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, PART) == 0);
	show("emptied again", map(written, 0));
	return 0;
}
