// A mutex and a condition in memory that a parent and its children share.
// covers: futex fork mmap
#include "threads.h"
#include <sys/mman.h>

#define CHILDREN 4

struct shared {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int turn, ended;
	long counter;
	char order[64];
};

static struct shared *shared;

static void make(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK(pthread_mutexattr_init(&mutex) == 0 && pthread_condattr_init(&condition) == 0);
	CHECK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
	CHECK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0);
	CHECK(pthread_mutex_init(&shared->lock, &mutex) == 0);
	CHECK(pthread_cond_init(&shared->changed, &condition) == 0);
}

static void take_turns(int me)
{
	for (int i = 0; i < 10; i++) {
		CHECK(pthread_mutex_lock(&shared->lock) == 0);
		while (shared->turn != me)
			CHECK(pthread_cond_wait(&shared->changed, &shared->lock) == 0);
		shared->order[strlen(shared->order)] = (char)('a' + me);
		shared->turn = (me + 1) % CHILDREN;
		CHECK(pthread_cond_broadcast(&shared->changed) == 0);
		CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	}
}

static void *count(void *argument)
{
	for (int i = 0; i < 100; i++) {
		CHECK(pthread_mutex_lock(&shared->lock) == 0);
		long before = shared->counter;
		CHECK(compute((uint64_t)before, 100) != 1);
		shared->counter = before + 1;
		CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	}
	return argument;
}

// Each child has two threads: four processes and eight threads want the one lock.
static void be_child(int me)
{
	take_turns(me);
	pthread_t other = start(count, NULL);
	count(NULL);
	join(other);
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	shared->ended++;
	CHECK(pthread_cond_broadcast(&shared->changed) == 0);
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	_exit(me);
}

int main(void)
{
	pid_t children[CHILDREN];
	make();
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		if (children[i] == 0)
			be_child(i);
	}
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	while (shared->ended < CHILDREN)
		CHECK(pthread_cond_wait(&shared->changed, &shared->lock) == 0);
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	for (int i = 0; i < CHILDREN; i++)
		reap("child", children[i]);
	say("order %s, counted %ld", shared->order, shared->counter);
	return 0;
}
