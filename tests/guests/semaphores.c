// POSIX semaphores: between threads, between processes, by name, with limits.
// covers: futex openat
#include "threads.h"
#include <semaphore.h>
#include <sys/mman.h>

static sem_t ping, pong;
static atomic_int here;

static void *answer(void *argument)
{
	for (int i = 0; i < 500; i++) {
		CHECK(sem_wait(&ping) == 0);
		++*(long *)argument;
		CHECK(sem_post(&pong) == 0);
	}
	return NULL;
}

static void *wait_in_vain(void *argument)
{
	struct timespec limit = after_ns(CLOCK_REALTIME, 3000000);
	announce(&here);
	CHECK_ERR(sem_timedwait(argument, &limit), ETIMEDOUT);
	limit = after_ns(CLOCK_MONOTONIC, 3000000);
	CHECK_ERR(sem_clockwait(argument, CLOCK_MONOTONIC, &limit), ETIMEDOUT);
	return NULL;
}

static void between_processes(sem_t *to_child, sem_t *to_parent, volatile long *value)
{
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 50; i++) {
			CHECK(sem_wait(to_child) == 0);
			*value = *value * 3 + 1;
			CHECK(sem_post(to_parent) == 0);
		}
		_exit(0);
	}
	for (int i = 0; i < 50; i++) {
		CHECK(sem_post(to_child) == 0);
		CHECK(sem_wait(to_parent) == 0);
		*value ^= i;
	}
	reap("child", child);
	say("value %lx", *value);
}

int main(void)
{
	long count = 0;
	int left;
	CHECK(sem_init(&ping, 0, 0) == 0 && sem_init(&pong, 0, 0) == 0);
	pthread_t thread = start(answer, &count);
	for (int i = 0; i < 500; i++) {
		CHECK(sem_post(&ping) == 0 && sem_wait(&pong) == 0);
		CHECK(count == i + 1);
	}
	join(thread);
	CHECK_ERR(sem_trywait(&ping), EAGAIN);
	thread = start(wait_in_vain, &ping);
	until_asleep(&here);
	say("answered %ld, meanwhile %llx", count, (unsigned long long)compute(8, 200000));
	join(thread);

	struct {
		sem_t semaphores[2];
		long value;
	} *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < 2; i++)
		CHECK(sem_init(&shared->semaphores[i], 1, 0) == 0);
	between_processes(&shared->semaphores[0], &shared->semaphores[1], &shared->value);

	sem_t *named[2];
	char name[64];
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof name, "/retrovane-guest-%d-%d", getpid(), i);
		named[i] = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
		CHECK(named[i] != SEM_FAILED && sem_unlink(name) == 0);
	}
	between_processes(named[0], named[1], &shared->value);
	CHECK(sem_getvalue(named[0], &left) == 0 && left == 0);
	CHECK(sem_close(named[0]) == 0 && sem_close(named[1]) == 0);
	return 0;
}
