// The owner of a robust mutex is killed by another process, which then takes the mutex.
// covers: kill tgkill set_robust_list futex
#include "threads.h"
#include <sys/mman.h>

#define ROUNDS 10

struct shared {
	pthread_mutex_t lock;
	atomic_int is_locked;
	int value;
};

static void own_until_killed(struct shared *shared)
{
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	shared->value++;
	post(&shared->is_locked, 1);
	for (;;)
		pause();
}

static void kill_owner(struct shared *shared, int round)
{
	atomic_store(&shared->is_locked, 0);
	pid_t owner = fork();
	CHECK(owner >= 0);
	if (owner == 0)
		own_until_killed(shared);
	CHECK(await(&shared->is_locked) == 1);
	if (round % 2)
		CHECK(kill(owner, SIGKILL) == 0);
	else
		CHECK(syscall(SYS_tgkill, owner, owner, SIGKILL) == 0);
	// It may not be dead yet: then the mutex is waited for.
	take_from_dead(&shared->lock);
	int status;
	CHECK(waitpid(owner, &status, 0) == owner && WIFSIGNALED(status));
}

int main(void)
{
	static const int protocols[] = { PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT };
	for (size_t i = 0; i < COUNT(protocols); i++) {
		struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		CHECK(shared != MAP_FAILED);
		make_robust(&shared->lock, protocols[i]);
		for (int round = 0; round < ROUNDS; round++)
			kill_owner(shared, round);
		say("%d owners died", shared->value);
	}
	return 0;
}
