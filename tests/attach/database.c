// A program that reads a file through a mapping that it cannot write, and changes it by system
// calls, as databases do. It had both before the session began: what it reads is what it wrote,
// and in a replay what it had written then. A rollback leaves the file as it is.
// prints-in-replay
#include "attach.h"
#include <fcntl.h>

int main(void)
{
	permit();
	long page = sysconf(_SC_PAGESIZE);
	char name[] = "database-XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, 2 * page) == 0);
	const volatile long *shown = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(shown != MAP_FAILED);
	for (long step = 1;; step++) {
		long was = shown[0];
		CHECK(was >= step - 1);
		CHECK(pwrite(fd, &step, sizeof step, 0) == sizeof step);
		CHECK(shown[0] == step);
		printf("was %ld\nstep %ld\n", was, step);
		nap(10);
	}
}
