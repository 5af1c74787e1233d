// What the guests of live sessions share. Each goes back to checkpoints of its own.
//
// Header lines: `// prints:` the lines of standard output, in their order;
// `// expect:` the end, if it is not exit 0; `// options:` of `retrovane live`.
// Without a live session a guest prints "no retrovane" and ends with 77.
#ifndef LIVE_H
#define LIVE_H
// It defines _GNU_SOURCE, and so comes first.
#include "threads.h"
#define RETROVANE_INLINE
#include "retrovane.h"
#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PAGE 4096

// Takes a checkpoint, or ends the guest where there is no session.
GUEST_FN int checkpoint(void)
{
	int id = rv_checkpoint();
	if (id < 0 && errno == ENOSYS) {
		say("no retrovane");
		exit(77);
	}
	CHECK(id >= 0);
	return id;
}

// Ends the guest where there is no session, before it does anything else.
GUEST_FN void need_session(void)
{
	CHECK(rv_discard(checkpoint()) == 0);
}

// True when a checkpoint returns for the first time.
GUEST_FN int first_time(int id)
{
	int count = rv_rollbacks(id);
	CHECK(count >= 0);
	return count == 0;
}

__attribute__((noreturn)) GUEST_FN void back(int id)
{
	int result = rv_rollback(id);
	CHECK(result == -1 && !"rv_rollback came back");
	_exit(98);
}

GUEST_FN void again(int id)
{
	CHECK(rv_replay(id) == 0);
}

GUEST_FN void forget(int id)
{
	CHECK(rv_discard(id) == 0);
}

GUEST_FN int is_mapped(void *address)
{
	unsigned char there;
	return mincore(address, PAGE, &there) == 0;
}

GUEST_FN int is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

GUEST_FN int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(tasks));)
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

// Returns when there are so many threads at most: the kernel forgets one some time after
// its end, and while there are checkpoints `kept` of those that ended stay.
GUEST_FN void until_threads(int count, int kept)
{
	while (count_threads() < count || count_threads() > count + kept)
		sched_yield();
}

GUEST_FN void *map(size_t length)
{
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

GUEST_FN int is_full(const char *at, size_t length, char byte)
{
	for (size_t i = 0; i < length; i++)
		if (at[i] != byte)
			return 0;
	return 1;
}

// Reads exactly so many bytes, in as many pieces as they come in.
GUEST_FN void read_all(int fd, void *bytes, size_t length)
{
	for (size_t have = 0; have < length;) {
		ssize_t got = read(fd, (char *)bytes + have, length - have);
		CHECK(got > 0);
		have += (size_t)got;
	}
}

GUEST_FN void write_all(int fd, const void *bytes, size_t length)
{
	for (size_t gone = 0; gone < length;) {
		ssize_t put = write(fd, (const char *)bytes + gone, length - gone);
		CHECK(put > 0);
		gone += (size_t)put;
	}
}

// The next bytes of a descriptor are these.
GUEST_FN void expect_input(int fd, const char *text)
{
	char bytes[256];
	size_t length = strlen(text);
	CHECK(length < sizeof bytes);
	read_all(fd, bytes, length);
	bytes[length] = 0;
	if (strcmp(bytes, text) != 0)
		say("read \"%s\" instead of \"%s\"", bytes, text);
	CHECK(strcmp(bytes, text) == 0);
}

#endif
