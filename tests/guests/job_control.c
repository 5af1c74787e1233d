// A child of several threads stopped and continued as a whole, as its parent sees it.
// covers: wait4 waitid kill
#include "threads.h"
#include <sys/mman.h>

struct shared {
	atomic_int ready;
	atomic_long counts[2];
};

static struct shared *shared;

static void *count_up(void *argument)
{
	atomic_long *count = argument;
	for (;;) {
		if (atomic_fetch_add(count, 1) == 1000)
			post(&shared->ready, 1);
		compute(1, 100);
	}
	return NULL;
}

static void until_it_moves(void)
{
	for (int i = 0; i < 2; i++) {
		long before = atomic_load(&shared->counts[i]);
		while (atomic_load(&shared->counts[i]) == before)
			sched_yield();
	}
}

int main(void)
{
	int status;
	siginfo_t info = {0};
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t child = fork();
	if (child == 0) {
		start(count_up, &shared->counts[0]);
		count_up(&shared->counts[1]);
	}
	await(&shared->ready);
	for (int round = 0; round < 4; round++) {
		CHECK(kill(child, round % 2 ? SIGTSTP : SIGSTOP) == 0);
		if (round < 2) {
			CHECK(waitpid(child, &status, WUNTRACED) == child);
			say_status("stop", status);
		} else {
			CHECK(waitid(P_PID, (id_t)child, &info, WSTOPPED) == 0);
			say("stop: code %d status %d", info.si_code, info.si_status);
		}
		// Every thread of it stands still.
		long a = atomic_load(&shared->counts[0]), b = atomic_load(&shared->counts[1]);
		say("meanwhile %llx", (unsigned long long)compute(1, 300000));
		CHECK(a == atomic_load(&shared->counts[0]) && b == atomic_load(&shared->counts[1]));
		CHECK(waitpid(child, &status, WUNTRACED | WNOHANG) == 0);
		CHECK(kill(child, SIGCONT) == 0);
		CHECK(waitpid(child, &status, WCONTINUED) == child);
		say_status("continue", status);
		until_it_moves();
	}
	CHECK(kill(child, SIGSTOP) == 0);
	CHECK(waitpid(child, &status, WUNTRACED) == child);
	CHECK(kill(child, SIGKILL) == 0);
	reap("killed while stopped", child);
	return 0;
}
