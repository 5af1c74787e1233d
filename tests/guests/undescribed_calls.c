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

// SIOCGIFCONF fills an array that a structure points to.
static void interfaces(const char *name, char *array, int bytes)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifconf list = {.ifc_len = bytes, .ifc_buf = array};
	CHECK(ioctl(fd, SIOCGIFCONF, &list) == 0);
	nondet("%s: %d bytes, sum %lx", name, list.ifc_len, (long)sum(array, list.ifc_len));
	CHECK(list.ifc_len % sizeof(struct ifreq) == 0);
	// A lowest descriptor of the detection's own would show here.
	int next = dup(fd);
	say("%s: descriptor %d", name, next);
	close(next);
	close(fd);
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

// The kernel's write makes the stack grow.
__attribute__((noinline)) static void deep(void)
{
	char *low = (char *)__builtin_frame_address(0) - (1 << 20);
	interfaces("below the stack", low, 4096);
}

int main(void)
{
	char local[4096];
	static char zeroes[64 << 10];
	interfaces("stack", local, sizeof local);
	interfaces("bss", zeroes + 12345, 4096);
	char *fresh = map(16 << 20, MAP_PRIVATE);
	interfaces("unpopulated", fresh + (5 << 20) - 20, 4096);
	char *shared = map(1 << 20, MAP_SHARED);
	interfaces("shared", shared + 4090, 4096);
	char *sparse = mmap(NULL, 1L << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sparse != MAP_FAILED) {
		interfaces("sparse", sparse + (1L << 35), 4096);
		munmap(sparse, 1L << 36);
	}
	int fd = open("file", O_RDWR | O_CREAT, 0600);
	CHECK(ftruncate(fd, 6000) == 0);
	char *file = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(file != MAP_FAILED);
	interfaces("file", file + 100, 4096);
	char *copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	interfaces("private file", copy + 100, 2048);
	deep();
	driver();
	file_systems();
	semaphores((unsigned short *)(fresh + 4094));
	semaphores((unsigned short *)(shared + 8192));
	CHECK_ERR(ioctl(fd, 0x12345678, fresh), ENOTTY);
	return 0;
}
