// Lists of descriptors in /proc: a sandbox looks there for what it forgot to close.
// It may also try every number, one by one.
// covers: getdents64 chroot fstat newfstatat statx dup fcntl
#include "guest.h"
#include <dirent.h>

static void list_open(const char *what, int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int seen[64] = {0}, count = 0, above = 0;
	CHECK(dir != NULL);
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		int number = atoi(entry->d_name);
		if (number < 64)
			seen[number] = 1;
		else
			above++;
		count++;
	}
	printf("%s: %d, %d of them high:", what, count, above);
	for (int i = 0; i < 64; i++)
		if (seen[i])
			printf(" %d", i);
	puts("");
	closedir(dir);
}

static void list(const char *what, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	list_open(what, fd);
}

// So little room that a call shows one entry, and may come upon none that is shown.
static void list_slowly(void)
{
	int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), count = 0;
	char room[32];
	CHECK(fd >= 0);
	while (syscall(SYS_getdents64, fd, room, sizeof room) > 0)
		count++;
	say("one by one: %d", count);
	close(fd);
}

// What the kernel wrote behind the entries that are shown is memory, too.
static void list_all_at_once(void)
{
	static char room[4096];
	int fd = open("/proc/self/fdinfo", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0 && syscall(SYS_getdents64, fd, room, sizeof room) > 0);
	nondet("all at once: %llx", (unsigned long long)hash_bytes(room, sizeof room));
	close(fd);
}

// By each way of asking, the numbers at which something is open.
static void try_all(void)
{
	int open_by[6] = {0};
	struct stat status;
	struct statx more;
	for (int fd = 0; fd < 4096; fd++) {
		open_by[0] += syscall(SYS_fstat, fd, &status) == 0;
		open_by[1] += syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH) == 0;
		open_by[2] += statx(fd, "", AT_EMPTY_PATH, STATX_MODE, &more) == 0;
		open_by[3] += fcntl(fd, F_GETFD) != -1;
		open_by[4] += fcntl(fd, F_GETFL) != -1;
		int copy = dup(fd);
		open_by[5] += copy != -1;
		if (copy != -1)
			CHECK(close(copy) == 0);
	}
	say("tried: %d %d %d %d %d %d", open_by[0], open_by[1], open_by[2], open_by[3], open_by[4],
	    open_by[5]);
}

// Another root: what the runtime opens to do without /proc is not shown either.
static void list_below(void)
{
	int proc = open("/proc", O_RDONLY | O_DIRECTORY);
	CHECK(proc >= 0);
	say("chroot: %s", chroot("/proc/self/fdinfo") == 0 ? "done" : "not permitted");
	int fd = openat(proc, "self/fd", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	list_open("below another root", fd);
}

int main(void)
{
	CHECK(close_range(3, ~0U, 0) == 0);
	list("fd", "/proc/self/fd");
	list("fdinfo", "/proc/self/fdinfo");
	list("a thread's", "/proc/thread-self/fd");
	list_slowly();
	list_all_at_once();
	try_all();
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fdinfo", child);
	list("a child's", path);
	CHECK(kill(child, SIGKILL) == 0);
	reap("child", child);
	child = fork();
	if (child == 0) {
		list_below();
		_exit(0);
	}
	reap("below", child);
	// No numbers of descriptors: threads and processes.
	DIR *dir = opendir("/proc/self/task");
	int count = 0;
	CHECK(dir != NULL);
	while (readdir(dir) != NULL)
		count++;
	say("threads: %d", count - 2);
	closedir(dir);
	return 0;
}
