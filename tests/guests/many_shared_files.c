// Shared mappings of more files than a process may have open by default: in replay each stays a
// file of its own, whose content system calls and a child change, too.
// covers: memfd_create mmap pwrite64 fork
#include "guest.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, FILES = 1500 };

int main(void)
{
	static unsigned char *all[FILES];
	for (int i = 0; i < FILES; i++) {
		int fd = memfd_create("one of many", MFD_CLOEXEC);
		CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
		all[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(all[i] != MAP_FAILED);
		CHECK(pwrite(fd, &i, sizeof i, 0) == sizeof i && close(fd) == 0);
	}
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (int i = 0; i < FILES; i += 7)
			all[i][5] = 1;
		_exit(0);
	}
	CHECK(waitpid(child, NULL, 0) == child);
	unsigned sum = 0;
	for (int i = 0; i < FILES; i++)
		sum = sum * 31 + all[i][0] + all[i][1] * 3 + all[i][5] * 7;
	printf("%u\n", sum);
	return 0;
}
