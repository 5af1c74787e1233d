// fork by a process of several threads: the child has the one that called.
// covers: fork clone
#include "threads.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int here, stop, prepared, in_parent, in_child;

static void *use_the_lock(void *argument)
{
	volatile uint64_t state = 1;
	(void)argument;
	post(&here, 1);
	while (!atomic_load(&stop)) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		state = compute(state, 500);
		char *block = malloc(state % 1000 + 1);
		CHECK(block);
		free(block);
		CHECK(pthread_mutex_unlock(&lock) == 0);
		// The lock is not fair: without this the forks would wait for many slices of time.
		sched_yield();
	}
	return NULL;
}

static void prepare(void)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	atomic_fetch_add(&prepared, 1);
}

static void after_in_parent(void)
{
	atomic_fetch_add(&in_parent, 1);
	CHECK(pthread_mutex_unlock(&lock) == 0);
}

static void after_in_child(void)
{
	atomic_fetch_add(&in_child, 1);
	CHECK(pthread_mutex_unlock(&lock) == 0);
}

static void *add(void *argument)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	*(long *)argument += 5;
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return NULL;
}

// The child has one thread, and makes its own.
static void *fork_here(void *argument)
{
	pid_t child = fork();
	if (child == 0) {
		long sum = 0;
		pthread_t threads[4];
		CHECK(getpid() == own_tid());
		for (int i = 0; i < 4; i++)
			threads[i] = start(add, &sum);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
		_exit((int)sum + atomic_load(&in_child));
	}
	CHECK(child > 0);
	return (void *)(long)reap(argument, child);
}

int main(void)
{
	CHECK(pthread_atfork(prepare, after_in_parent, after_in_child) == 0);
	pthread_t busy[2];
	for (int i = 0; i < 2; i++)
		busy[i] = start(use_the_lock, NULL);
	await(&here);
	fork_here("by main");
	join(start(fork_here, "by a worker"));
	for (int i = 0; i < 10; i++)
		join(start(fork_here, "again"));
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		join(busy[i]);
	say("prepared %d, in the parent %d, in the child %d", prepared, in_parent, in_child);
	return 0;
}
