// What waited at a checkpoint in objects of several kinds is read once after each rollback, and
// in the present after a replay no more.
// prints: read
#include "live.h"
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#define ROUNDS 12

static int signals, watch, event, semaphore, timer, pair[2];

static void fill(const char *directory)
{
	struct itimerspec soon = {.it_value = {0, 1000}};
	struct pollfd expired;
	char name[64];

	uint64_t five = 5;

	CHECK((event = eventfd(0, EFD_NONBLOCK)) >= 0 && write(event, &five, 8) == 8);
	CHECK((semaphore = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE)) >= 0 && write(semaphore, &five, 8) == 8);
	CHECK((timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)) >= 0);
	CHECK(timerfd_settime(timer, 0, &soon, NULL) == 0);
	expired = (struct pollfd){.fd = timer, .events = POLLIN};
	CHECK(poll(&expired, 1, -1) == 1);
	CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR2) == 0);
	snprintf(name, sizeof name, "%s/file", directory);
	CHECK(close(open(name, O_CREAT | O_RDWR, 0600)) == 0 && unlink(name) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) == 0);
	CHECK(write(pair[0], "one", 3) == 3 && write(pair[0], "other", 5) == 5);
}

static void expect_number(int fd, uint64_t number)
{
	uint64_t got;
	CHECK(read(fd, &got, 8) == 8 && got == number);
}

static void read_one(int kind)
{
	struct signalfd_siginfo both[4];
	char bytes[512];
	int fd = (int[]){event, semaphore, timer, signals, watch, pair[1]}[kind];

	switch (kind) {
	case 0:
		expect_number(fd, 5);
		break;
	case 1:
		for (int i = 0; i < 5; i++)
			expect_number(fd, 1);
		break;
	case 2:
		expect_number(fd, 1);
		break;
	case 3:
		CHECK(read(fd, both, sizeof both) == 2 * sizeof both[0]);
		CHECK(both[0].ssi_signo + both[1].ssi_signo == SIGUSR1 + SIGUSR2);
		break;
	case 4:
		CHECK(read(fd, bytes, sizeof bytes) > 0);
		break;
	default:
		CHECK(read(fd, bytes, sizeof bytes) == 3 && memcmp(bytes, "one", 3) == 0);
		CHECK(read(fd, bytes, sizeof bytes) == 5 && memcmp(bytes, "other", 5) == 0);
	}
	CHECK_ERR(read(fd, bytes, sizeof bytes), EAGAIN);
}

int main(void)
{
	char directory[] = "/tmp/rv-input-kinds-XXXXXX";
	sigset_t set;

	need_session();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK((signals = signalfd(-1, &set, SFD_NONBLOCK)) >= 0);
	CHECK(mkdtemp(directory) && (watch = inotify_init1(IN_NONBLOCK)) >= 0);
	CHECK(inotify_add_watch(watch, directory, IN_CREATE) >= 0);
	for (int round = 0; round < ROUNDS; round++) {
		fill(directory);
		int id = checkpoint();
		for (int i = 0; i < 6; i++)
			read_one((round + i) % 6);
		if (rv_rollbacks(id) < 2) {
			again(id);
			back(id);
		}
		forget(id);
		close(event);
		close(semaphore);
		close(timer);
		close(pair[0]);
		close(pair[1]);
	}
	CHECK(rmdir(directory) == 0);
	say("read");
	return 0;
}
