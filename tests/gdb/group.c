/* A parent and its children write to memory that they share, by turns; how they come to share
 * it is said when this is built. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 2, ROUNDS = 3 };

static struct common {
	int turn;
	long counter;
} *common;

static void *map(int fd)
{
	ftruncate(fd, 4096);
	return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void *shared(void)
{
#if defined SEGMENT
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	void *memory = shmat(id, 0, 0);
	shmctl(id, IPC_RMID, 0);
	return memory;
#elif defined MEMFD
	return map(memfd_create("common", 0));
#elif defined POSIX
	char name[64];
	snprintf(name, sizeof name, "/group-%d", getpid());
	void *memory = map(shm_open(name, O_RDWR | O_CREAT, 0600));
	shm_unlink(name);
	return memory;
#else
	return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
#endif
}

static void add(int me, int n)
{
	while (__atomic_load_n(&common->turn, __ATOMIC_ACQUIRE) != me)
		sched_yield();
	common->counter += n;
	__atomic_store_n(&common->turn, (me + 1) % (CHILDREN + 1), __ATOMIC_RELEASE);
}

/* Nobody ends before all has been written: what changes with the end itself stops nobody. */
static void finish(void)
{
	while (__atomic_load_n(&common->counter, __ATOMIC_ACQUIRE) != 111 * ROUNDS)
		sched_yield();
}

int main(void)
{
	int number = 1, status;
	common = shared();
	for (int child = 1; child <= CHILDREN; child++) {
		number *= 10;
		if (fork() == 0) {
			for (int round = 0; round < ROUNDS; round++)
				add(child, number);
			finish();
#ifdef KILLED
			/* Nobody is told that it ends, or where. */
			kill(getpid(), 9);
#endif
			_exit(0);
		}
	}
	for (int round = 0; round < ROUNDS; round++)
		add(0, 1);
	finish();
	for (int child = 1; child <= CHILDREN; child++)
		wait(&status);
	printf("together %ld\n", common->counter);
	return common->counter != 111 * ROUNDS;
}
