// Two processes that share memory wait for each other by calls that they make again and
// again: futex wake-ups that find nobody, reads that would block, polls that find nothing.
// Summing memory around each of the calls takes too long.
// not-by: sums
// covers: futex read poll
#include "guest.h"
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define ROUNDS 500
#define TRIES_SOON 500

static struct shared {
	atomic_uint word, over;
} *shared;

static void sleep_often(void)
{
	struct timespec limit = { 5, 0 };
	for (int i = 0; i < ROUNDS; i++)
		CHECK(syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &limit, NULL, 0) == 0);
	atomic_store(&shared->over, 1);
	_exit(0);
}

static void answer(int in, int out)
{
	char byte;
	for (int i = 0; i < ROUNDS; i++) {
		while (read(in, &byte, 1) != 1)
			CHECK(errno == EAGAIN);
		CHECK(write(out, &byte, 1) == 1);
	}
	_exit(0);
}

static void await_end(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		sleep_often();
	int woken = 0, soon = 0, tries = 0;
	while (!atomic_load(&shared->over)) {
		tries++;
		if (syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0) == 1) {
			woken++;
			soon += tries <= TRIES_SOON;
			tries = 0;
		}
	}
	await_end(pid);
	// Not each time only after the millisecond that one waits before it asks for the turn.
	CHECK(soon >= ROUNDS / 10);
	say("%d woken", woken);

	int there[2], back[2];
	CHECK(pipe2(there, O_NONBLOCK) == 0 && pipe2(back, O_NONBLOCK) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		answer(there[0], back[1]);
	char byte = 'b';
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(write(there[1], &byte, 1) == 1);
		struct pollfd polled = { .fd = back[0], .events = POLLIN };
		while (poll(&polled, 1, 0) == 0)
			;
		CHECK(read(back[0], &byte, 1) == 1);
	}
	await_end(pid);
	say("%d answers", ROUNDS);
	return 0;
}
