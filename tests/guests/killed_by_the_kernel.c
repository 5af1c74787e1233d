// Processes that count in memory they share are ended by the kernel itself, where nobody asks first:
// at their parent's death, by a timer, by what comes to a descriptor. What they had counted until then
// others see, and go on from.
// covers: prctl timer_create timer_settime fcntl
// not-by: write-protection sums
#include "threads.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

enum way { BY_PARENT, BY_TIMER, BY_DESCRIPTOR, WAYS };

struct shared {
	atomic_int counts;
	volatile unsigned long count, beside;
	unsigned char marks[1 << 16];
};

static _Noreturn void count(struct shared *shared)
{
	post(&shared->counts, 1);
	for (;;) {
		shared->count++;
		shared->beside += shared->count & 3;
		shared->marks[shared->count * 4099 & 0xffff]++;
	}
}

static void arm_timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	struct itimerspec when = { .it_value.tv_nsec = 30000000 };
	CHECK(timer_settime(timer, 0, &when, NULL) == 0);
}

static void arm_descriptor(int fd)
{
	CHECK(fcntl(fd, F_SETSIG, SIGKILL) == 0);
	CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
	CHECK(fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
}

static _Noreturn void arm_and_count(struct shared *shared, enum way way, int fd)
{
	if (way == BY_PARENT) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child > 0) {
			await(&shared->counts);
			usleep(20000);
			_exit(0);
		}
		CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	} else if (way == BY_TIMER) {
		arm_timer();
	} else {
		arm_descriptor(fd);
	}
	count(shared);
}

static void be_killed(struct shared *shared, enum way way)
{
	atomic_store(&shared->counts, 0);
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		arm_and_count(shared, way, pair[1]);
	CHECK(await(&shared->counts) == 1);
	if (way == BY_DESCRIPTOR) {
		usleep(20000);
		CHECK(write(pair[0], "x", 1) == 1);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	if (way == BY_PARENT) {
		CHECK(status == 0);
		// The counter is ours now.
		CHECK(waitpid(-1, &status, 0) > 0);
	}
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(shared->count != 0);
	unsigned long sum = 0;
	for (size_t i = 0; i < sizeof shared->marks; i++)
		sum = sum * 31 + shared->marks[i];
	say("%d: killed", way);
	nondet("%lu, %lu, and %lu", shared->count, shared->beside, sum);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const int shared_anonymous = MAP_SHARED | MAP_ANONYMOUS;
	struct shared *shared =
		mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, shared_anonymous, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	for (enum way way = 0; way < WAYS; way++)
		be_killed(shared, way);
	return 0;
}
