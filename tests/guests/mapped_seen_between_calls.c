// What a process writes by calls to files that another one has mapped is seen by that one without
// a call of its own: behind a flag in shared memory, in the handler of a signal, and between two
// reads of the time.
// covers: pwrite64 mmap kill clock_gettime
#include "guest.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { FILE_BYTES = 5000, ROUNDS = 20 };

static volatile struct shared {
	int asked, done;
} *shared;
static const volatile unsigned char *shown, *shown_privately;
static volatile unsigned sum_in_handler;
static int acknowledged[2];
static volatile sig_atomic_t seen_in_handler, seen_privately, signals;

static void on_signal(int number)
{
	(void)number;
	seen_in_handler = shown[FILE_BYTES - 1];
	seen_privately = shown_privately[0];
	sum_in_handler = sum_in_handler * 31 + (seen_in_handler << 8 | seen_privately);
	signals++;
	CHECK(write(acknowledged[1], "", 1) == 1);
}

static void put(int fd, int value)
{
	unsigned char byte = (unsigned char)value;
	CHECK(pwrite(fd, &byte, 1, FILE_BYTES - 1) == 1 && pwrite(fd, &byte, 1, 0) == 1);
}

static const unsigned char *map(int fd, int how)
{
	void *bytes = mmap(NULL, FILE_BYTES, PROT_READ, how, fd, 0);
	CHECK(bytes != MAP_FAILED);
	return bytes;
}

// Asks with one word and looks at another, and at the file, without a call.
static void read_behind_flag(int fd)
{
	pid_t writer = fork();
	CHECK(writer >= 0);
	if (writer == 0) {
		for (int round = 1; round <= ROUNDS; round++) {
			while (shared->asked < round)
				;
			put(fd, round);
			shared->done = round;
		}
		_exit(0);
	}
	unsigned sum = 0;
	for (int round = 1; round <= ROUNDS; round++) {
		unsigned before = shown[FILE_BYTES - 1];
		shared->asked = round;
		while (shared->done < round)
			;
		sum = sum * 31 + (before << 8) + shown[FILE_BYTES - 1] + shown_privately[0];
		if (shown[0] != round)
			say("round %d: %d", round, shown[0]);
	}
	int status;
	CHECK(waitpid(writer, &status, 0) == writer && status == 0);
	say("behind a flag: %x", sum);
}

// One that has not mapped the file.
static pid_t start_writer(int fd)
{
	pid_t reader = getpid(), writer = fork();
	CHECK(writer >= 0);
	if (writer != 0)
		return writer;
	char byte;
	for (int round = 1; round <= ROUNDS; round++) {
		CHECK(read(acknowledged[0], &byte, 1) == 1);
		put(fd, 100 + round);
		CHECK(kill(reader, SIGUSR1) == 0);
	}
	// The last handler's, and one more.
	CHECK(read(acknowledged[0], &byte, 1) == 1 && read(acknowledged[0], &byte, 1) == 1);
	put(fd, 7);
	_exit(0);
}

static void read_in_handler(void)
{
	CHECK(write(acknowledged[1], "", 1) == 1);
	// It computes, and makes no call but in the handler.
	while (signals < ROUNDS)
		;
	say("in a handler: %d, %d, %x", (int)seen_in_handler, (int)seen_privately, sum_in_handler);
}

// The time says when the other is done.
static void read_beside_time(void)
{
	struct timespec begin, now;
	CHECK(write(acknowledged[1], "", 1) == 1);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
	do
		CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 100000000);
	nondet("beside reads of the time: %d, %d", shown[FILE_BYTES - 1], shown_privately[0]);
}

int main(void)
{
	static unsigned char bytes[FILE_BYTES];
	struct sigaction action = {.sa_handler = on_signal};
	int fd = open("shown", O_RDWR | O_CREAT | O_CLOEXEC, 0600), status;
	CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && pipe(acknowledged) == 0);
	pid_t writer = start_writer(fd);
	shown = map(fd, MAP_SHARED);
	shown_privately = map(fd, MAP_PRIVATE);
	read_in_handler();
	read_beside_time();
	CHECK(waitpid(writer, &status, 0) == writer && status == 0);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	read_behind_flag(fd);
	return 0;
}
