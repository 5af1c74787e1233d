// What the operations of the random program share: the numbers they draw, and
// the digest that everything they learn from the system goes into.
#ifndef RANDOM_H
#define RANDOM_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPERATION __attribute__((unused)) static
#define PAGE 4096
#define FILES 4

struct self {
	uint64_t seed;
	uint64_t digest;
	uint64_t folded;
	int in_child; // only what is safe after a fork among threads
	sigjmp_buf *volatile escape; // where a fault leads, if one is expected
};

// What all threads share; the pages behind it also with children.
struct shared {
	atomic_long counters[8];
	atomic_int word;
	pthread_mutex_t between_processes;
	char bytes[PAGE];
};

static struct shared *shared;
static const char *program_path;
static __thread struct self *this_thread;
static __thread volatile long signals_seen;
static __thread sigjmp_buf *volatile jump_from_handler;

OPERATION uint64_t draw(struct self *me)
{
	uint64_t z = (me->seed += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

OPERATION long below(struct self *me, long bound)
{
	return (long)(draw(me) % (uint64_t)bound);
}

OPERATION void fold(struct self *me, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < length; i++)
		me->digest = (me->digest ^ at[i]) * 1099511628211u;
	me->folded++;
}

OPERATION void fold_value(struct self *me, long value)
{
	fold(me, &value, sizeof value);
}

// A call's result, with its error.
OPERATION long fold_result(struct self *me, long result)
{
	int error = result == -1 ? errno : 0;
	fold_value(me, result);
	fold_value(me, error);
	errno = error;
	return result;
}

OPERATION void fill(struct self *me, void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((unsigned char *)bytes)[i] = (unsigned char)draw(me);
}

OPERATION void write_line(const char *text)
{
	size_t length = strlen(text);
	while (length > 0) {
		ssize_t written = write(STDOUT_FILENO, text, length);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			_exit(98);
		text += written;
		length -= (size_t)written;
	}
}

OPERATION struct timespec microseconds(long count)
{
	return (struct timespec){count / 1000000, count % 1000000 * 1000};
}

OPERATION int open_shared_file(struct self *me, int flags)
{
	char path[16];
	snprintf(path, sizeof path, "f%ld", below(me, FILES));
	return open(path, flags | O_CREAT, 0644);
}

// One that no other process changes, and that is mapped in one way only: what private
// mappings show of others' changes is unspecified (mmap(2)).
OPERATION int open_own_file(int flags, int kind)
{
	char path[32];
	snprintf(path, sizeof path, "own%ld-%d", (long)getpid(), kind);
	return open(path, flags | O_CREAT, 0644);
}

#endif
