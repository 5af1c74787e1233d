// A mutex with priority inheritance that many threads wait for, in one process and across two: each that
// wakes in vain says so in memory, many times in one call.
// covers: futex sched_yield clone wait4
// build: -pthread
#include "guest.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

enum { THREADS = 12, ROUNDS = 150 };

struct counted {
	pthread_mutex_t lock;
	long sum;
	int inside;
};

static struct counted *counted;

static void *work(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(pthread_mutex_lock(&counted->lock) == 0);
		CHECK(counted->inside++ == 0);
		counted->sum += i;
		sched_yield();
		CHECK(--counted->inside == 0);
		CHECK(pthread_mutex_unlock(&counted->lock) == 0);
	}
	return arg;
}

static void all_work(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void)
{
	pthread_mutexattr_t attributes;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
	CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
	counted = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(counted != MAP_FAILED && pthread_mutex_init(&counted->lock, &attributes) == 0);
	all_work();
	say("one process: %ld", counted->sum);
	counted->sum = 0;
	pid_t child = fork();
	CHECK(child >= 0);
	all_work();
	if (child == 0)
		_exit(0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("two processes: %ld", counted->sum);
	return 0;
}
