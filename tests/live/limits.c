// Under any limit that a program sets itself a checkpoint is taken and can be gone back
// to, or is refused with a reason, and the program is not harmed.
// prints: open files: went on
// prints: address space: went on
// prints: processes: went on
// prints: data: went on
// prints: core: went on
// prints: file size: went on
// prints: locked memory: went on
// prints: stack: went on
#include "live.h"
#include <sys/resource.h>

static void under(const char *name, int resource, rlim_t limit)
{
	struct rlimit before, now;
	CHECK(getrlimit(resource, &before) == 0);
	now = (struct rlimit){limit < before.rlim_max ? limit : before.rlim_max, before.rlim_max};
	CHECK(setrlimit(resource, &now) == 0);
	volatile int memory = 1;
	int id = rv_checkpoint();
	if (id < 0) {
		nondet("refused: %s", errno_name(errno));
		CHECK(errno == ENOMEM || errno == EAGAIN);
	} else {
		memory++;
		int count = rv_rollbacks(id);
		CHECK(count == 0 || count == 1);
		if (count == 0 && rv_rollback(id) != 0) {
			CHECK(errno == ENOMEM || errno == EAGAIN);
			nondet("rollback refused: %s", errno_name(errno));
		}
		CHECK(memory == 2);
		forget(id);
	}
	CHECK(setrlimit(resource, &before) == 0);
	id = checkpoint();
	memory = 7;
	if (first_time(id))
		back(id);
	forget(id);
	say("%s: went on", name);
}

int main(void)
{
	need_session();
	under("open files", RLIMIT_NOFILE, 0);
	under("address space", RLIMIT_AS, 1 << 20);
	under("processes", RLIMIT_NPROC, 1);
	under("data", RLIMIT_DATA, 4096);
	under("core", RLIMIT_CORE, 0);
	under("file size", RLIMIT_FSIZE, 0);
	under("locked memory", RLIMIT_MEMLOCK, 0);
	under("stack", RLIMIT_STACK, 64 * 1024);
	return 0;
}
