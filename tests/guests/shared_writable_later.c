// Memory that is shared, and that nobody may write to yet when it is mapped, is shared by children
// all the same: it becomes writable later, or another descriptor writes to it.
// covers: mmap mprotect fork pwrite64
#include "guest.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 30, BYTES = 8192 };

struct counts {
	_Atomic unsigned turn;
	unsigned sum;
};

// Two processes take turns, without a call.
static void take_turns(const char *name, struct counts *counts)
{
	pid_t child = fork();
	CHECK(child >= 0);
	unsigned self = child == 0;
	for (unsigned round = 0; round < ROUNDS; round++) {
		while (atomic_load(&counts->turn) % 2 != self)
			;
		counts->sum = counts->sum * 31 + self + round;
		atomic_fetch_add(&counts->turn, 1);
	}
	if (child == 0)
		_exit(0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("%s: %u turns, %x", name, (unsigned)counts->turn, counts->sum);
}

static struct counts *map(int how, int fd)
{
	void *memory = mmap(NULL, BYTES, PROT_NONE, MAP_SHARED | how, fd, 0);
	CHECK(memory != MAP_FAILED && mprotect(memory, BYTES, PROT_READ | PROT_WRITE) == 0);
	return memory;
}

// The child has inherited the mapping, and writes by calls.
static void write_by_calls(int fd)
{
	int asked[2], answered[2];
	char byte;
	const volatile unsigned char *shown = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(shown != MAP_FAILED && pipe(asked) == 0 && pipe(answered) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (int round = 0; round < ROUNDS; round++) {
			CHECK(read(asked[0], &byte, 1) == 1);
			byte = (char)round;
			CHECK(pwrite(fd, &byte, 1, 5000) == 1 && write(answered[1], "", 1) == 1);
		}
		_exit(0);
	}
	unsigned sum = 0;
	for (int round = 0; round < ROUNDS; round++) {
		CHECK(write(asked[1], "", 1) == 1 && read(answered[0], &byte, 1) == 1);
		sum = sum * 31 + shown[5000];
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("by calls: %x", sum);
}

int main(void)
{
	int fd = open("counts", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
	take_turns("anonymous", map(MAP_ANONYMOUS, -1));
	take_turns("a file's", map(0, fd));
	write_by_calls(fd);
	return 0;
}
