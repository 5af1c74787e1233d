// Processes that share memory: process-shared mutexes and conditions, semaphores,
// spinning, a robust mutex whose owner dies. Lines with ~ tell what chance decided.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 3, ROUNDS = 3000 };

struct shared {
	pthread_mutex_t lock, robust;
	pthread_cond_t changed;
	sem_t semaphore;
	atomic_int ready, baton;
	long counter;
	unsigned order;
	int waiting, in_file;
};

static void require(int condition, const char *what)
{
	if (!condition) {
		perror(what);
		exit(1);
	}
}

static void work(struct shared *s, int number)
{
	s->ready++;
	while (s->ready < CHILDREN)
		sched_yield();
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&s->lock);
		s->counter++;
		s->order = (s->order ^ number) * 16777619u;
		pthread_mutex_unlock(&s->lock);
	}
	for (int i = 0; i < 300; i++) {
		while (s->baton % CHILDREN != number)
			sched_yield();
		s->baton++;
	}
	pthread_mutex_lock(&s->lock);
	s->waiting++;
	pthread_cond_broadcast(&s->changed);
	while (s->waiting < CHILDREN)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	sem_post(&s->semaphore);
	if (number == 0) {
		pthread_mutex_lock(&s->robust);
		raise(SIGKILL);
	}
	exit(10 + number);
}

int main(void)
{
	int file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
	require(file >= 0 && ftruncate(file, sizeof(struct shared)) == 0, "file");
	struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct shared *in_file = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	require(s != MAP_FAILED && in_file != MAP_FAILED, "mmap");
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->lock, &attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->robust, &attributes);
	pthread_condattr_t condition;
	pthread_condattr_init(&condition);
	pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&s->changed, &condition);
	sem_init(&s->semaphore, 1, 0);
	s->order = 2166136261u;

	pid_t pids[CHILDREN];
	for (int number = 0; number < CHILDREN; number++) {
		pids[number] = fork();
		if (pids[number] == 0) {
			__atomic_add_fetch(&in_file->in_file, number + 1, __ATOMIC_SEQ_CST);
			work(s, number);
		}
	}
	for (int number = 0; number < CHILDREN; number++)
		sem_wait(&s->semaphore);
	for (int number = 0; number < CHILDREN; number++) {
		int status;
		require(waitpid(pids[number], &status, 0) == pids[number], "waitpid");
		printf("child %d: %s %d\n", number, WIFSIGNALED(status) ? "signal" : "exit",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	int dead = pthread_mutex_lock(&s->robust);
	printf("the robust mutex: %s\n", dead == EOWNERDEAD ? "its owner died" : "something else");
	int read_back = 0;
	require(pread(file, &read_back, sizeof read_back, (char *)&in_file->in_file - (char *)in_file) == sizeof read_back,
		"pread");
	printf("counter %ld, baton %d, in the file %d\n~ order %08x\n", s->counter, s->baton, read_back, s->order);
	return s->counter == CHILDREN * ROUNDS ? 0 : 1;
}
