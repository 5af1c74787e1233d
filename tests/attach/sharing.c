// Memory that it could share, and shares with nobody: without a file, of memfd_create(2) (mapped
// twice for writing, once for reading and once for itself), of a file that has no name any more,
// of one that ends in the middle of a page, and a segment of System V. All of it goes back with
// the rest, and is there again in replay.
// prints-in-replay
#include "attach.h"
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#define BYTES 0x3000
#define WORDS (BYTES / sizeof(long))

static volatile long *anonymous, *one, *other, *reading, *private, *file, *short_file, *segment;
static long steps_made;

static void *map(int fd, size_t bytes, int protection, int flags)
{
	void *at = mmap(NULL, bytes, protection, flags, fd, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

static int file_of(off_t bytes, int keep_name)
{
	char name[] = "sharing-XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && ftruncate(fd, bytes) == 0);
	CHECK(keep_name || unlink(name) == 0);
	return fd;
}

static void make(void)
{
	int both = PROT_READ | PROT_WRITE;
	anonymous = map(-1, BYTES, both, MAP_SHARED | MAP_ANONYMOUS);
	int fd = memfd_create("sharing", 0);
	CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
	one = map(fd, BYTES, both, MAP_SHARED);
	other = map(fd, BYTES, both, MAP_SHARED);
	reading = map(fd, BYTES, PROT_READ, MAP_SHARED);
	private = map(fd, BYTES, both, MAP_PRIVATE);
	CHECK(close(fd) == 0);
	fd = file_of(BYTES, 0);
	file = map(fd, BYTES, both, MAP_SHARED);
	CHECK(close(fd) == 0);
	fd = file_of(0x1000 + 0x100, 1);
	short_file = map(fd, BYTES, both, MAP_SHARED);
	CHECK(close(fd) == 0);
	int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
	CHECK(id >= 0);
	segment = shmat(id, NULL, 0);
	CHECK(segment != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
	private[600] = -1;
}

static void check(long step)
{
	CHECK(step == steps_made && anonymous[0] == step && anonymous[WORDS - 1] == step);
	CHECK(one[0] == step && other[0] == step && reading[0] == step && private[0] == step);
	CHECK(private[600] == -1 && one[1] == step && other[WORDS - 1] == -step);
	CHECK(reading[WORDS - 1] == -step && one[600] == 0);
	CHECK(file[0] == step && file[WORDS - 1] == 2 * step && short_file[0] == step);
	CHECK(short_file[0x1000 / sizeof(long)] == 3 * step);
	CHECK(segment[0] == step && segment[WORDS - 1] == step && segment[700] == 0);
}

static void write_all(long step)
{
	steps_made = step;
	anonymous[0] = anonymous[WORDS - 1] = step;
	one[0] = other[1] = step;
	other[WORDS - 1] = -step;
	file[0] = short_file[0] = step;
	file[WORDS - 1] = 2 * step;
	short_file[0x1000 / sizeof(long)] = 3 * step;
	segment[0] = segment[WORDS - 1] = step;
}

int main(void)
{
	permit();
	make();
	for (long step = 1;; step++) {
		check(step - 1);
		write_all(step);
		printf("step %ld\n", step);
		nap(10);
	}
}
