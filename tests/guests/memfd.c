// Files without a name: seals, sizes, mappings, a descriptor handed to exec.
// covers: memfd_create memfd_secret
#include "guest.h"
#include <sys/mman.h>

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

int main(void)
{
	char text[32] = "";
	int fd = memfd_create("name", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(write(fd, "contents", 8) == 8);
	CHECK(ftruncate(fd, 100) == 0);
	char *m = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(m != MAP_FAILED);
	memcpy(m + 8, " mapped", 7);
	CHECK(pread(fd, text, 15, 0) == 15);
	say("memfd: %s", text);
	CHECK_ERR(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
	CHECK(munmap(m, 100) == 0);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK) == 0);
	CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK));
	CHECK_ERR(write(fd, "x", 1), EPERM);
	CHECK_ERR(ftruncate(fd, 1), EPERM);
	const char *view = mmap(NULL, 100, PROT_READ, MAP_PRIVATE, fd, 0);
	say("sealed: %.15s", view);
	pid_t child = fork();
	if (child == 0) {
		CHECK(pread(fd, text, 8, 0) == 8);
		_exit(text[0] == 'c' ? 0 : 1);
	}
	reap("child", child);
	CHECK_ERR(memfd_create("x", 0xf0000), EINVAL);
	int secret = syscall(SYS_memfd_secret, 0);
	nondet_outcome("memfd_secret", secret);
	return 0;
}
