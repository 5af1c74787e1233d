// Robust mutexes whose owner dies: a thread that ends, a child that exits or is killed.
// covers: set_robust_list futex
#include "threads.h"
#include <sys/mman.h>

struct shared {
	pthread_mutex_t lock;
	atomic_int held, waiting;
	long value;
};

static struct shared *shared;

static void make(int is_shared)
{
	pthread_mutexattr_t attributes;
	memset(shared, 0, sizeof *shared);
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
	CHECK(pthread_mutexattr_setpshared(&attributes,
					   is_shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE) == 0);
	CHECK(pthread_mutex_init(&shared->lock, &attributes) == 0);
}

static void *die_with_it(void *argument)
{
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	shared->value = 1;
	post(&shared->held, 1);
	if (argument)
		until_asleep(&shared->waiting);
	return NULL;
}

static void *wait_for_it(void *argument)
{
	await(&shared->held);
	announce(&shared->waiting);
	int error = pthread_mutex_lock(&shared->lock);
	CHECK(shared->value == 1 && argument == NULL);
	if (error == EOWNERDEAD)
		CHECK(pthread_mutex_consistent(&shared->lock) == 0);
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	return (void *)(long)error;
}

static void thread_ends(void)
{
	make(0);
	join(start(die_with_it, NULL));
	say("after a thread: %s", errno_name(pthread_mutex_lock(&shared->lock)));
	CHECK(pthread_mutex_consistent(&shared->lock) == 0);
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	say("then: %d", pthread_mutex_lock(&shared->lock));
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);

	make(0);
	pthread_t owner = start(die_with_it, (void *)1), waiter = start(wait_for_it, NULL);
	join(owner);
	say("a waiter sees %s", errno_name((int)join(waiter)));

	// Who unlocks it without having made it consistent makes it useless.
	make(0);
	join(start(die_with_it, NULL));
	CHECK(pthread_mutex_trylock(&shared->lock) == EOWNERDEAD);
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	say("not made consistent: %s", errno_name(pthread_mutex_lock(&shared->lock)));
}

static void child_dies(int is_killed)
{
	make(1);
	pid_t child = fork();
	if (child == 0) {
		CHECK(pthread_mutex_lock(&shared->lock) == 0);
		shared->value = 1;
		post(&shared->held, 1);
		if (!is_killed)
			_exit(0);
		for (;;)
			pause();
	}
	pthread_t waiter = start(wait_for_it, NULL);
	if (is_killed) {
		// A thread of ours: it waits for the child's lock.
		until_asleep(&shared->waiting);
		CHECK(pthread_mutex_trylock(&shared->lock) == EBUSY);
		CHECK(kill(child, SIGKILL) == 0);
	}
	reap("owner", child);
	say("the waiter sees %s", errno_name((int)join(waiter)));
}

int main(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < 3; i++) {
		thread_ends();
		child_dies(0);
		child_dies(1);
	}
	return 0;
}
