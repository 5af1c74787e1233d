// Descriptors are as they were at each of several checkpoints, whatever was done to them since:
// closed, replaced, opened under the number of another, read, moved, made to block or not, kept or
// closed at execve(2), waited for. Drawn from a fixed seed, and compared with what was noted.
// prints: 60 rounds, all descriptors as then
#include "live.h"
#include <sys/epoll.h>
#include <sys/stat.h>

#define ROUNDS 60
#define FIRST 40
#define NUMBERS 12
#define STEPS 25
#define MARKS 5

// What is noted of a number: nothing, or a file by its length, and how it is open.
struct noted {
	int is_open, status, flags;
	off_t length, offset;
};

struct mark {
	int id;
	struct noted all[NUMBERS];
	int waits;
};

static unsigned seed = 12345;
// Outlives rollbacks: shared with nobody, but in a file.
static int memory_fd = 20;
static int files[4], epoll_fd, pipe_fds[2];

static unsigned draw(unsigned below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % below;
}

static int new_file(int length)
{
	char text[64] = "", name[] = "/tmp/postponed-XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && unlink(name) == 0);
	CHECK(write(fd, text, (size_t)length) == length);
	int high = fcntl(fd, F_DUPFD, 100);
	CHECK(high >= 0 && close(fd) == 0);
	return high;
}

static void note(struct mark *mark)
{
	for (int i = 0; i < NUMBERS; i++) {
		struct noted *one = &mark->all[i];
		struct stat status;
		memset(one, 0, sizeof *one);
		if (fstat(FIRST + i, &status) != 0)
			continue;
		one->is_open = 1;
		one->length = status.st_size;
		one->status = fcntl(FIRST + i, F_GETFL);
		one->flags = fcntl(FIRST + i, F_GETFD);
		one->offset = lseek(FIRST + i, 0, SEEK_CUR);
	}
	struct epoll_event event;
	mark->waits = epoll_wait(epoll_fd, &event, 1, 0);
}

// An open of its own of one of the files, under a number.
static void put(int number, int which)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", files[which]);
	int fd = open(path, O_RDWR);
	CHECK(fd >= 0 && dup2(fd, number) == number && close(fd) == 0);
}

static void step(void)
{
	int number = FIRST + (int)draw(NUMBERS);
	char text[8];
	switch (draw(10)) {
	case 0:
		close(number);
		break;
	case 1:
	case 2:
		put(number, (int)draw(4));
		break;
	case 3:
		if (read(number, text, 1 + draw(5)) < 0)
			CHECK(errno == EBADF);
		break;
	case 4:
		lseek(number, draw(20), SEEK_SET);
		break;
	case 5:
		fcntl(number, F_SETFL, draw(2) ? O_NONBLOCK | O_APPEND : 0);
		break;
	case 6:
		fcntl(number, F_SETFD, draw(2) ? FD_CLOEXEC : 0);
		break;
	case 7:
		dup2(FIRST + (int)draw(NUMBERS), number);
		break;
	case 8:
		CHECK(close_range((unsigned)number, (unsigned)number + draw(2), 0) == 0);
		break;
	case 9: {
		struct epoll_event event = {.events = draw(2) ? EPOLLIN : EPOLLPRI};
		if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, pipe_fds[0], &event) != 0)
			CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_fds[0], &event) == 0);
		break;
	}
	}
}

// The seed goes on behind a rollback, or the same would happen for ever.
static void keep_seed(void)
{
	CHECK(pwrite(memory_fd, &seed, sizeof seed, 0) == sizeof seed);
}

static void find_seed(void)
{
	CHECK(pread(memory_fd, &seed, sizeof seed, 0) == sizeof seed);
}

int main(void)
{
	need_session();
	int fd = new_file(0);
	CHECK(dup2(fd, memory_fd) == memory_fd && close(fd) == 0);
	for (int i = 0; i < 4; i++)
		files[i] = new_file(10 + i);
	CHECK(pipe(pipe_fds) == 0 && write(pipe_fds[1], "x", 1) == 1);
	CHECK((epoll_fd = epoll_create1(0)) >= 0);
	static struct mark marks[MARKS];
	for (int i = 0; i < NUMBERS; i += 2)
		put(FIRST + i, i % 4);
	for (volatile int round = 0; round < ROUNDS; round++) {
		for (volatile int i = 0; i < MARKS; i++) {
			for (unsigned steps = draw(STEPS); steps > 0; steps--)
				step();
			note(&marks[i]);
			marks[i].id = checkpoint();
			if (rv_rollbacks(marks[i].id) > 0) {
				struct mark now;
				note(&now);
				CHECK(memcmp(now.all, marks[i].all, sizeof now.all) == 0);
				CHECK(now.waits == marks[i].waits);
				find_seed();
			}
			if (draw(4) == 0) {
				forget(marks[i].id);
				marks[i].id = -1;
			}
		}
		for (unsigned steps = draw(STEPS); steps > 0; steps--)
			step();
		int back_to = marks[draw(MARKS)].id;
		if (draw(2) && back_to >= 0 && rv_rollbacks(back_to) < 2) {
			keep_seed();
			back(back_to);
		}
		for (int i = 0; i < MARKS; i++)
			if (marks[i].id >= 0)
				forget(marks[i].id);
	}
	say("%d rounds, all descriptors as then", ROUNDS);
	return 0;
}
