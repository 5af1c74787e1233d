// Calls whose effects nobody described: what the kernel wrote, also behind
// pointers in structures, in unpopulated, shared and stack memory, is the same
// in a replay.
// covers: sysfs ioctl semctl
#include "guest.h"
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/socket.h>

static uint64_t sum(const void *memory, size_t bytes)
{
	uint64_t total = 1469598103934665603u;
	for (size_t i = 0; i < bytes; i++)
		total = (total ^ ((const unsigned char *)memory)[i]) * 1099511628211u;
	return total;
}

static void *map(size_t bytes, int flags)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

// GETALL fills as much as the set has, which no argument says.
static void values(const char *name, char *array, int bytes)
{
	enum { COUNT_MAX = 256 };
	union {
		unsigned short values[COUNT_MAX];
		char bytes[COUNT_MAX * 2];
	} wanted;
	int count = bytes / 16;
	int set = semget(IPC_PRIVATE, count, 0600);
	CHECK(count <= COUNT_MAX && set >= 0);
	CHECK(getrandom(wanted.bytes, sizeof wanted, 0) == sizeof wanted);
	for (int i = 0; i < count; i++)
		wanted.values[i] &= 0x7fff;
	CHECK(semctl(set, 0, SETALL, wanted.values) == 0);
	CHECK(semctl(set, 0, GETALL, array) == 0);
	CHECK(memcmp(array, wanted.values, count * 2) == 0);
	nondet("%s: %d bytes, sum %lx", name, count * 2, (long)sum(array, count * 2));
	CHECK(semctl(set, 0, IPC_RMID) == 0);
	// A lowest descriptor of the detection's own would show here.
	int next = dup(1);
	say("%s: descriptor %d", name, next);
	close(next);
}

static void driver(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_name = "lo", .ifr_data = (char *)&info};
	int result = ioctl(fd, SIOCETHTOOL, &request);
	nondet("driver: %d %s %lx", result, info.driver, (long)sum(&info, sizeof info));
	close(fd);
}

static void file_systems(void)
{
	char name[4096] = "";
	long count = syscall(SYS_sysfs, 3, 0, 0);
	nondet("file systems: %ld", count);
	for (long i = 0; i < count && i < 8; i++) {
		CHECK(syscall(SYS_sysfs, 2, i, name) == 0);
		nondet("file system %ld: %s", i, name);
		CHECK(syscall(SYS_sysfs, 1, name, 0) == i);
	}
	CHECK_ERR(syscall(SYS_sysfs, 1, "no such file system", 0), EINVAL);
}

static void semaphores(unsigned short *values)
{
	int set = semget(IPC_PRIVATE, 3, 0600);
	CHECK(set >= 0);
	unsigned short wanted[3] = {11, 22, 33};
	CHECK(semctl(set, 0, SETALL, wanted) == 0);
	CHECK(semctl(set, 0, GETALL, values) == 0);
	say("semaphores: %d %d %d", values[0], values[1], values[2]);
	CHECK(semctl(set, 0, IPC_RMID) == 0);
}

// A long stretch of writable memory begins with a file's pages, of which the last is behind the
// file's end; where the kernel writes nothing is populated yet.
static void beside_the_end_of(int fd)
{
	enum { PART = 16 << 20, FILE_BYTES = 3 * 4096 };
	char *room = mmap(NULL, 4 * PART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(room != MAP_FAILED);
	char *long_one = (char *)(((uintptr_t)room + PART - 1) & -(uintptr_t)PART) + (2 << 20);
	char *file = long_one - FILE_BYTES;
	CHECK(mmap(file, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == file);
	CHECK(mmap(long_one, 2 * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == long_one);
	long_one[PART + 100] = 1;
	// The first page tables are there, and empty.
	long_one[0] = 1;
	CHECK(madvise(file, FILE_BYTES + 4096, MADV_DONTNEED) == 0);
	values("beside a file's end", file + 100, 4096);
	munmap(room, 4 * PART);
}

// The kernel's write makes the stack grow.
__attribute__((noinline)) static void deep(void)
{
	char *low = (char *)__builtin_frame_address(0) - (1 << 20);
	values("below the stack", low, 4096);
}

int main(void)
{
	char local[4096];
	static char zeroes[64 << 10];
	values("stack", local, sizeof local);
	values("bss", zeroes + 12345, 4096);
	char *fresh = map(16 << 20, MAP_PRIVATE);
	values("unpopulated", fresh + (5 << 20) - 20, 4096);
	char *shared = map(1 << 20, MAP_SHARED);
	values("shared", shared + 4090, 4096);
	char *sparse = mmap(NULL, 1L << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sparse != MAP_FAILED) {
		values("sparse", sparse + (1L << 35), 4096);
		munmap(sparse, 1L << 36);
	}
	int fd = open("file", O_RDWR | O_CREAT, 0600);
	CHECK(ftruncate(fd, 6000) == 0);
	char *file = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(file != MAP_FAILED);
	values("file", file + 100, 4096);
	char *copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	values("private file", copy + 100, 2048);
	beside_the_end_of(fd);
	deep();
	driver();
	file_systems();
	semaphores((unsigned short *)(fresh + 4094));
	semaphores((unsigned short *)(shared + 8192));
	CHECK_ERR(ioctl(fd, 0x12345678, fresh), ENOTTY);
	return 0;
}
