// Processes that count in memory they share are killed from another lane, which shares nothing:
// one by one, by a descriptor, and as a group; also in a namespace of process ids, where there may be
// one. What they had counted until then others see.
// covers: kill pidfd_open pidfd_send_signal setpgid clone
#include "threads.h"
#include <sched.h>
#include <sys/mman.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#define SYS_pidfd_open 434
#endif

struct shared {
	atomic_int counts;
	volatile unsigned long count, beside;
};

enum way { BY_NUMBER, BY_DESCRIPTOR, AS_GROUP, WAYS };

static _Noreturn void count(struct shared *shared)
{
	for (shared->count++, post(&shared->counts, 1);;) {
		shared->count++;
		shared->beside += shared->count & 3;
	}
}

// A new image has the lane to itself.
static _Noreturn void kill_it(const char *way, pid_t pid)
{
	usleep(20000);
	switch (atoi(way)) {
	case BY_NUMBER:
		CHECK(kill(pid, SIGKILL) == 0);
		break;
	case BY_DESCRIPTOR: {
		int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		CHECK(pidfd >= 0);
		CHECK(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0);
		break;
	}
	default:
		CHECK(kill(-pid, SIGKILL) == 0);
	}
	exit(0);
}

static void be_killed(struct shared *shared, enum way way)
{
	atomic_store(&shared->counts, 0);
	pid_t counter = fork();
	CHECK(counter >= 0);
	if (counter == 0) {
		CHECK(setpgid(0, 0) == 0);
		count(shared);
	}
	CHECK(await(&shared->counts) == 1);
	pid_t killer = fork();
	CHECK(killer >= 0);
	if (killer == 0) {
		char how[16], whom[16];
		snprintf(how, sizeof how, "%d", way);
		snprintf(whom, sizeof whom, "%d", counter);
		execl("/proc/self/exe", "killed_elsewhere", how, whom, NULL);
		_exit(1);
	}
	int status;
	CHECK(waitpid(counter, &status, 0) == counter);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(waitpid(killer, &status, 0) == killer && status == 0);
	CHECK(shared->count != 0);
	say("%d: killed", way);
	nondet("%lu and %lu", shared->count, shared->beside);
}

static void be_killed_in_namespace(struct shared *shared)
{
	const unsigned long flags[] = { CLONE_NEWPID, CLONE_NEWPID | CLONE_NEWUSER };
	pid_t first = -1;
	for (size_t i = 0; first < 0 && i < COUNT(flags); i++)
		first = (pid_t)syscall(SYS_clone, flags[i] | SIGCHLD, NULL, NULL, NULL, NULL);
	if (first < 0)
		return;
	if (first == 0) {
		for (int way = 0; way < WAYS; way++)
			be_killed(shared, way);
		exit(0);
	}
	reap("namespace", first);
}

int main(int argc, char **argv)
{
	if (argc == 3)
		kill_it(argv[1], atoi(argv[2]));
	struct shared *shared =
		mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int way = 0; way < WAYS; way++)
		be_killed(shared, way);
	be_killed_in_namespace(shared);
	return 0;
}
