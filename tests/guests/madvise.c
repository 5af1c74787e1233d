// Advice that changes contents (DONTNEED, FREE, WIPEONFORK) and advice that does not.
// covers: madvise process_madvise cachestat mseal mbind get_mempolicy set_mempolicy
// covers: set_mempolicy_home_node migrate_pages move_pages
#include "guest.h"
#include <sys/mman.h>
#include <sys/uio.h>

#define PIDFD_OPEN 434
#define PROCESS_MADVISE 440
#define SET_MEMPOLICY_HOME_NODE 450
#define CACHESTAT 451
#define MSEAL 462

int main(void)
{
	size_t size = 16 * 4096;
	char *a = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(a, 'x', size);
	CHECK(madvise(a, 4 * 4096, MADV_DONTNEED) == 0);
	say("after DONTNEED: %d %d", a[0], a[4 * 4096]);
	CHECK(madvise(a, size, MADV_WILLNEED) == 0);
	outcome("MADV_HUGEPAGE", madvise(a, size, MADV_HUGEPAGE));
	outcome("MADV_SEQUENTIAL", madvise(a, size, MADV_SEQUENTIAL));
	outcome("MADV_COLD", madvise(a, size, MADV_COLD));
	outcome("MADV_POPULATE_WRITE", madvise(a, size, MADV_POPULATE_WRITE));
	CHECK_ERR(madvise(a + 1, 4096, MADV_DONTNEED), EINVAL);
	CHECK_ERR(madvise(a, 4096, 12345), EINVAL);
	CHECK(madvise(a + 8 * 4096, 4096, MADV_WIPEONFORK) == 0);
	CHECK(madvise(a + 9 * 4096, 4096, MADV_DONTFORK) == 0);
	pid_t child = fork();
	if (child == 0) {
		unsigned char resident[1];
		CHECK_ERR(mincore(a + 9 * 4096, 4096, resident), ENOMEM);
		_exit(a[8 * 4096] == 0 && a[7 * 4096] == 'x' ? 3 : 4);
	}
	reap("child", child);
	CHECK(a[8 * 4096] == 'x');
	// What MADV_FREE leaves is for the kernel to choose: it is rewritten before it is read.
	CHECK(madvise(a, size, MADV_FREE) == 0);
	memset(a, 'y', size);
	say("after FREE: %c", a[4096]);

	int fd = open("m", O_RDWR | O_CREAT, 0600);
	CHECK(write(fd, "disk", 4) == 4);
	char *file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	memcpy(file, "core", 4);
	CHECK(madvise(file, 4096, MADV_DONTNEED) == 0);
	say("file page: %.4s", file);
	CHECK(ftruncate(fd, 8192) == 0);
	char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	outcome("MADV_REMOVE", madvise(shared, 4096, MADV_REMOVE));
	say("removed: %d", shared[0]);
	munmap(shared, 8192);

	int self = syscall(PIDFD_OPEN, getpid(), 0);
	struct iovec vector = {a, size};
	nondet_outcome("process_madvise", syscall(PROCESS_MADVISE, self, &vector, 1, MADV_COLD, 0));
	uint64_t range[2] = {0, 0}, cached[5];
	if (nondet_outcome("cachestat", syscall(CACHESTAT, fd, range, cached, 0)) == 0)
		nondet("pages cached %llu", (unsigned long long)cached[0]);

	int mode = 77;
	unsigned long nodes[16] = {0};
	nondet_outcome("get_mempolicy", syscall(SYS_get_mempolicy, &mode, nodes, 1024, NULL, 0));
	nondet("mode %d", mode);
	nondet_outcome("set_mempolicy", syscall(SYS_set_mempolicy, 0, NULL, 0));
	nondet_outcome("mbind", syscall(SYS_mbind, a, size, 0, NULL, 0, 0));
	nondet_outcome("set_mempolicy_home_node",
		       syscall(SET_MEMPOLICY_HOME_NODE, a, size, 0, 0));
	unsigned long one = 1;
	nondet_outcome("migrate_pages", syscall(SYS_migrate_pages, 0, 64, &one, &one));
	void *page = a;
	int status = -77;
	nondet_outcome("move_pages", syscall(SYS_move_pages, 0, 1, &page, NULL, &status, 0));
	nondet("page on node %d", status);
	char *sealed = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nondet_outcome("mseal", syscall(MSEAL, sealed, 4096, 0)) == 0)
		CHECK_ERR(munmap(sealed, 4096), EPERM);
	return 0;
}
