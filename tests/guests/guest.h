// What every guest shares: assertions, result lines, children.
//
// A guest prints only what is the same in each native run. A value that
// differs between runs goes through nondet(): its line begins with '~', is
// equal in a recording and its replay, and is not compared with a native run.
#ifndef GUEST_H
#define GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GUEST_FN __attribute__((unused)) static

// Ends the guest with a line that says what did not hold.
#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			int check_errno = errno;                                           \
			printf("FAIL %s:%d: %s (errno %d %s)\n", __FILE__, __LINE__,       \
			       #condition, check_errno, strerror(check_errno));            \
			fflush(stdout);                                                    \
			_exit(99);                                                         \
		}                                                                          \
	} while (0)

// The call must fail with this errno.
#define CHECK_ERR(call, err)                                                               \
	do {                                                                               \
		errno = 0;                                                                 \
		CHECK((long)(call) == -1 && errno == (err));                               \
	} while (0)

// Lines leave at once, so that a fork copies no unwritten output.
__attribute__((constructor)) static void guest_line_buffering(void)
{
	setvbuf(stdout, NULL, _IOLBF, 4096);
}

__attribute__((format(printf, 1, 2))) GUEST_FN void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

__attribute__((format(printf, 1, 2))) GUEST_FN void nondet(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("~ ", stdout);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

// A value that the compiler does not know, so that it does not warn of its use.
GUEST_FN long hidden(long value)
{
	__asm__("" : "+r"(value));
	return value;
}

// No memory is mapped there.
#define BAD ((void *)hidden(8))

GUEST_FN const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);
	return name ? name : "E?";
}

// "name: ok" or "name: ENOENT": for calls whose outcome depends on the kernel and user.
GUEST_FN long outcome(const char *name, long result)
{
	if (result == -1)
		say("%s: %s", name, errno_name(errno));
	else
		say("%s: ok", name);
	return result;
}

// The same, where the tool may answer otherwise than the kernel (refused calls).
GUEST_FN long nondet_outcome(const char *name, long result)
{
	if (result == -1)
		nondet("%s: %s", name, errno_name(errno));
	else
		nondet("%s: ok", name);
	return result;
}

GUEST_FN void say_status(const char *name, int status)
{
	if (WIFEXITED(status))
		say("%s: exit %d", name, WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		say("%s: signal %d", name, WTERMSIG(status));
	else if (WIFSTOPPED(status))
		say("%s: stopped %d", name, WSTOPSIG(status));
	else
		say("%s: continued %d", name, WIFCONTINUED(status));
}

// Waits for this child and prints how it ended.
GUEST_FN int reap(const char *name, pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) != pid)
		CHECK(errno == EINTR);
	say_status(name, status);
	return status;
}

// Runs something in a child, and waits for it.
GUEST_FN void run_in_child(const char *name, void (*run)(void))
{
	pid_t child = fork();
	if (child == 0) {
		run();
		_exit(0);
	}
	reap(name, child);
}

// Starts a child, and returns when it is about to run its part; a part that returns has failed.
GUEST_FN pid_t start_child(void (*run)(void))
{
	int ends[2];
	CHECK(pipe(ends) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(write(ends[1], "x", 1) == 1);
		run();
		_exit(1);
	}
	char byte;
	CHECK(read(ends[0], &byte, 1) == 1);
	close(ends[0]);
	close(ends[1]);
	return pid;
}

GUEST_FN void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(close(fd) == 0);
}

GUEST_FN uint64_t hash_bytes(const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	uint64_t hash = 1469598103934665603u;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * 1099511628211u;
	return hash;
}

GUEST_FN int64_t now_ns(void)
{
	struct timespec t;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

#endif
