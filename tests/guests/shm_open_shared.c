// Named shared memory that two programs open, each by itself.
// covers: openat ftruncate mmap unlink execve
#include "threads.h"
#include <sys/mman.h>

struct shared {
	atomic_int to_child, to_parent;
	long values[1000];
};

static struct shared *open_by_name(const char *name, int flags)
{
	int fd = shm_open(name, O_RDWR | flags, 0600);
	CHECK(fd >= 0);
	if (flags)
		CHECK(ftruncate(fd, sizeof(struct shared)) == 0);
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED && close(fd) == 0);
	return shared;
}

static int be_second(const char *name)
{
	struct shared *shared = open_by_name(name, 0);
	CHECK(await(&shared->to_child) == 7);
	for (int i = 0; i < 1000; i++)
		shared->values[i] = shared->values[i] * 2 + 1;
	post(&shared->to_parent, 8);
	return 4;
}

int main(int argc, char **argv)
{
	char name[64];
	long sum = 0;
	if (argc == 2)
		return be_second(argv[1]);
	snprintf(name, sizeof name, "/retrovane-shared-%d", getpid());
	struct shared *shared = open_by_name(name, O_CREAT | O_EXCL);
	pid_t child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "second", name, NULL);
		_exit(126);
	}
	for (int i = 0; i < 1000; i++)
		shared->values[i] = i;
	post(&shared->to_child, 7);
	say("the second says %d", await(&shared->to_parent));
	for (int i = 0; i < 1000; i++)
		sum += shared->values[i];
	say("sum %ld", sum);
	reap("second", child);
	CHECK(shm_unlink(name) == 0);
	CHECK_ERR(shm_open(name, O_RDWR, 0), ENOENT);
	return 0;
}
