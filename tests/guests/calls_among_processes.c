// Processes that share memory make calls that take a while and do not sleep: others have the
// turn meanwhile. What each has seen of the others' steps, before and behind every call, is the
// same again; so is a file that all show again and again, and that one of them writes.
// covers: openat read pread64 newfstatat mmap munmap close write sendto recvfrom getdents64 poll
#include "guest.h"
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PROCESSES 4
#define ROUNDS 300
#define FILE_BYTES 5000

static struct shared {
	_Atomic uint64_t steps;
	char buffer[64];
} *shared;

// The order of all steps goes into what each process computes.
static uint64_t step(uint64_t seen)
{
	return (seen ^ atomic_fetch_add(&shared->steps, 1)) * 0x100000001b3u;
}

static uint64_t look_at_file(uint64_t seen)
{
	int fd = open("shown", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	seen = step(seen);
	char first, *bytes = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(bytes != MAP_FAILED);
	seen = step(seen) + (unsigned char)bytes[FILE_BYTES - 1];
	CHECK(pread(fd, &first, 1, 0) == 1 && first == bytes[0]);
	seen = step(seen) + (unsigned char)first;
	CHECK(munmap(bytes, FILE_BYTES) == 0);
	seen = step(seen);
	CHECK(close(fd) == 0);
	return step(seen);
}

static uint64_t look_for_files(uint64_t seen)
{
	struct stat status;
	CHECK(open("not there", O_RDONLY) < 0 && errno == ENOENT);
	seen = step(seen);
	CHECK(stat("shown", &status) == 0 && status.st_size == FILE_BYTES);
	seen = step(seen);
	char entries[2048];
	int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0 && syscall(SYS_getdents64, dir, entries, sizeof entries) > 0);
	seen = step(seen);
	CHECK(close(dir) == 0);
	return step(seen);
}

// What the kernel writes lands in memory that the others read.
static uint64_t talk(uint64_t seen, int ends[2], int self)
{
	char byte = (char)('a' + self);
	struct pollfd wait = { .fd = ends[1], .events = POLLIN };
	CHECK(send(ends[0], &byte, 1, MSG_DONTWAIT) == 1);
	seen = step(seen);
	CHECK(poll(&wait, 1, 0) == 1);
	CHECK(recv(ends[1], &shared->buffer[self], 1, MSG_DONTWAIT) == 1);
	for (int i = 0; i < PROCESSES; i++)
		seen = seen * 31 + (unsigned char)shared->buffer[i];
	shared->buffer[self] = (char)seen;
	CHECK(recv(ends[1], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	return step(seen);
}

static void change_file(int round)
{
	char byte = (char)round;
	int fd = open("shown", O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && pwrite(fd, &byte, 1, FILE_BYTES - 1) == 1 && close(fd) == 0);
}

static void work(int self)
{
	int ends[2];
	uint64_t seen = (uint64_t)self;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		seen = look_at_file(seen);
		seen = look_for_files(seen);
		seen = talk(seen, ends, self);
		if (self == 0 && round % 50 == 49)
			change_file(round);
	}
	// What is sent has to be the same again.
	CHECK(send(ends[0], &seen, sizeof seen, 0) == sizeof seen);
}

int main(void)
{
	char bytes[FILE_BYTES];
	memset(bytes, 'x', sizeof bytes);
	int fd = open("shown", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes && close(fd) == 0);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t children[PROCESSES];
	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0) {
			work(i);
			_exit(0);
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		int status;
		CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
	}
	printf("%llu steps\n", (unsigned long long)shared->steps);
	return 0;
}
