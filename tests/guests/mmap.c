// Mappings: anonymous and of files, private and shared, fixed, sparse, past the end of a file.
// covers: mmap munmap msync mincore mlock mlock2 munlock mlockall munlockall remap_file_pages
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf past_end;

static void on_bus(int number)
{
	siglongjmp(past_end, number);
}

static void of_files(void)
{
	int fd = open("m", O_RDWR | O_CREAT, 0600);
	CHECK(ftruncate(fd, 10000) == 0);
	CHECK(pwrite(fd, "from the file", 13, 4096) == 13);
	char *private = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	char *shared = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *second = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 4096);
	CHECK(private != MAP_FAILED && shared != MAP_FAILED && second != MAP_FAILED);
	say("second page: %s", second);
	memcpy(private, "private", 8);
	memcpy(shared, "shared!", 8);
	char text[16] = "";
	CHECK(pread(fd, text, 8, 0) == 8);
	say("file: %s, private: %s", text, private);
	CHECK(pwrite(fd, "written", 8, 100) == 8);
	say("shared sees: %s", shared + 100);
	CHECK(msync(shared, 10000, MS_SYNC) == 0);
	CHECK_ERR(msync(shared + 1, 1, MS_SYNC), EINVAL);
	CHECK(shared[9999] == 0 && shared[12287] == 0);
	struct sigaction action = {.sa_handler = on_bus};
	CHECK(sigaction(SIGBUS, &action, NULL) == 0);
	char *longer = mmap(NULL, 8 * 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	int caught = sigsetjmp(past_end, 1);
	if (caught == 0)
		text[0] = *(volatile char *)(longer + 5 * 4096);
	say("past the end: signal %d", caught);
	CHECK(munmap(longer, 8 * 4096) == 0);
	nondet_outcome("remap_file_pages",
		       syscall(SYS_remap_file_pages, shared, 4096, 0, 1, 0));
	CHECK(munmap(private, 10000) == 0 && munmap(shared, 10000) == 0);
	close(fd);
	CHECK_ERR(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0), EBADF);
}

int main(void)
{
	size_t size = 64 * 4096;
	unsigned char resident[64];
	char *a = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(a != MAP_FAILED);
	nondet("mapped at %p", (void *)a);
	for (size_t i = 0; i < size; i += 4096)
		CHECK(a[i] == 0);
	memset(a, 0x5a, size);
	CHECK(mincore(a, size, resident) == 0);
	say("resident: %d", resident[5] & 1);
	CHECK(munmap(a + 8 * 4096, 4 * 4096) == 0);
	CHECK_ERR(mincore(a, size, resident), ENOMEM);
	char *hole = mmap(a + 8 * 4096, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(hole == a + 8 * 4096 && hole[0] == 0);
	CHECK_ERR(mmap(a, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
		  EEXIST);
	char *hinted = mmap((void *)0x200000000, 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	nondet("hint answered with %p", (void *)hinted);
	hinted[1] = 1;
	char *reserved = mmap(NULL, 1ul << 36, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(reserved != MAP_FAILED);
	CHECK(mprotect(reserved + (1ul << 35), 4096, PROT_READ | PROT_WRITE) == 0);
	reserved[(1ul << 35) + 7] = 9;
	CHECK(munmap(reserved, 1ul << 36) == 0);
	char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	CHECK(low != MAP_FAILED && (uintptr_t)low < 0x80000000u);
	outcome("mlock", mlock(a, 4096));
	outcome("mlock2", mlock2(a, 4096, MLOCK_ONFAULT));
	outcome("munlock", munlock(a, 4096));
	outcome("mlockall", mlockall(MCL_FUTURE | MCL_ONFAULT));
	outcome("munlockall", munlockall());
	CHECK_ERR(munmap(a + 1, 4096), EINVAL);
	CHECK_ERR(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EINVAL);
	say("hash %llx", (unsigned long long)hash_bytes(a, 8 * 4096));
	of_files();
	return 0;
}
