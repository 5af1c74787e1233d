// A lock that others try in a loop, held by a thread, or a process, whose only calls are made while
// it has the lock: the others get it all the same.
// covers: clock_gettime getppid sched_yield clock_nanosleep fork
#include "threads.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <emmintrin.h>

enum way { READS_TIME, CALLS, WAYS };
enum wait { SPINS, YIELDS, SLEEPS, WAITS };

enum { TIMES = 20, FIRST_ROUNDS = 100 };

struct shared {
	atomic_int lock;
	atomic_int is_over;
	atomic_long rounds;
	enum way way;
	enum wait wait;
};

static void wait_once(enum wait wait)
{
	switch (wait) {
	case SPINS:
		_mm_pause();
		break;
	case YIELDS:
		sched_yield();
		break;
	default:
		usleep(100);
	}
}

static void lock_and_ask(struct shared *shared)
{
	struct timespec now;
	while (atomic_exchange(&shared->lock, 1))
		wait_once(shared->wait);
	if (shared->way == READS_TIME)
		clock_gettime(CLOCK_MONOTONIC, &now);
	else
		getppid();
	atomic_store(&shared->lock, 0);
}

static void *hog(void *argument)
{
	struct shared *shared = argument;
	while (!atomic_load(&shared->is_over)) {
		lock_and_ask(shared);
		atomic_fetch_add(&shared->rounds, 1);
	}
	return NULL;
}

static void get_it(struct shared *shared)
{
	while (atomic_load(&shared->rounds) < FIRST_ROUNDS)
		usleep(1000);
	for (int i = 0; i < TIMES; i++)
		lock_and_ask(shared);
	atomic_store(&shared->is_over, 1);
}

int main(void)
{
	for (int way = 0; way < WAYS; way++)
		for (int wait = 0; wait < WAITS; wait++) {
			struct shared own = {.way = way, .wait = wait};
			pthread_t thread = start(hog, &own);
			get_it(&own);
			join(thread);
			nondet("%d %d: %ld rounds", way, wait, atomic_load(&own.rounds));
		}
	say("threads got it");
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	shared->way = CALLS;
	shared->wait = YIELDS;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		hog(shared);
		_exit(0);
	}
	get_it(shared);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	nondet("%ld rounds", atomic_load(&shared->rounds));
	say("a process got it");
	return 0;
}
