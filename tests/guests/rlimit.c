// Limits, and what happens at them.
// covers: getrlimit setrlimit prlimit64 getpriority setpriority getrusage
#include "guest.h"
#include <sys/mman.h>
#include <sys/resource.h>

int main(void)
{
	struct rlimit limit, old;
	for (int i = 0; i < 16; i++) {
		CHECK(syscall(SYS_getrlimit, i, &limit) == 0);
		nondet("limit %d: %ld %ld", i, (long)limit.rlim_cur, (long)limit.rlim_max);
	}
	CHECK_ERR(getrlimit(99, &limit), EINVAL);
	limit = (struct rlimit){8, 64};
	CHECK(syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit) == 0);
	int fd = 0, last = 0;
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		last = fd;
	say("highest descriptor %d, then %s", last, errno_name(errno));
	limit.rlim_cur = 20;
	CHECK(prlimit(0, RLIMIT_NOFILE, &limit, &old) == 0);
	say("old limit %ld %ld", (long)old.rlim_cur, (long)old.rlim_max);
	CHECK(open("/dev/null", O_RDONLY) == last + 1);
	limit = (struct rlimit){100, 100};
	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	close(last);
	fd = open("f", O_RDWR | O_CREAT, 0600);
	char block[150] = {0};
	CHECK(write(fd, block, 150) == 100);
	CHECK_ERR(write(fd, block, 1), EFBIG);
	limit = (struct rlimit){2 << 20, 2 << 20};
	CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
	CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
	void *big = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("64 MB within a limit of 2 MB: %s", big == MAP_FAILED ? errno_name(errno) : "granted");
	say("priority %d", getpriority(PRIO_PROCESS, 0));
	CHECK(setpriority(PRIO_PROCESS, 0, 5) == 0);
	say("raw priority %ld", syscall(SYS_getpriority, PRIO_PROCESS, 0));
	outcome("lower again", setpriority(PRIO_PROCESS, 0, 0));
	struct rusage usage;
	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	nondet("time %ld us", (long)usage.ru_utime.tv_usec);
	return 0;
}
