// Processes in one memory compute against each other; one shares the root (CLONE_FS) and another
// does not, or the descriptors, or what is done with signals.
// covers: clone wait4
#include "threads.h"
#include <sched.h>
#include <sys/wait.h>

#define CHILDREN 2

static char stacks[CHILDREN][65536] __attribute__((aligned(64)));
static volatile unsigned long mixed, rounds[CHILDREN];
static volatile int stop;

static int mix(void *argument)
{
	long index = (long)argument;
	while (!stop) {
		rounds[index]++;
		mixed = mixed * 3 + (unsigned long)index;
	}
	syscall(SYS_exit, (int)index);
	return 0;
}

static void try(int first, int second)
{
	int flags[CHILDREN] = { first, second };
	pid_t pids[CHILDREN];
	stop = 0;
	mixed = 0;
	for (long i = 0; i < CHILDREN; i++) {
		pids[i] = clone(mix, stacks[i] + sizeof stacks[i], CLONE_VM | SIGCHLD | flags[i],
				(void *)i);
		CHECK(pids[i] > 0);
	}
	usleep(1500);
	stop = 1;
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && WEXITSTATUS(status) == i);
	}
	nondet("mixed: %lx", mixed);
	say("%x and %x", first, second);
}

int main(void)
{
	for (int round = 0; round < 4; round++) {
		try(0, CLONE_FS);
		try(0, CLONE_FS | CLONE_FILES | CLONE_SIGHAND);
		try(CLONE_FS, 0);
		try(CLONE_FILES, CLONE_FS);
	}
	return 0;
}
