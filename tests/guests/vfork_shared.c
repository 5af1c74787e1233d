// CLONE_VFORK without CLONE_VM: the parent waits for a child that has memory of its own, and
// some that they share.
// covers: clone execve
#include "threads.h"
#include <sys/mman.h>

static atomic_int *shared;

static pid_t child_that_is_waited_for(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, 0);
}

static void *add_meanwhile(void *argument)
{
	for (int i = 0; i < 200; i++) {
		atomic_fetch_add(&shared[1], 1);
		sched_yield();
	}
	return argument;
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return atoi(argv[1]);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);

	pid_t child = child_that_is_waited_for();
	if (child == 0) {
		for (int i = 0; i < 5; i++) {
			atomic_fetch_add(shared, 7);
			usleep(1000);
		}
		_exit(3);
	}
	say("the child has written: %d", atomic_load(shared));
	reap("ended", child);

	char *again[] = {argv[0], "4", NULL};
	child = child_that_is_waited_for();
	if (child == 0) {
		usleep(2000);
		atomic_fetch_add(shared, 1);
		execv("/proc/self/exe", again);
		_exit(9);
	}
	say("the child has executed: %d", atomic_load(shared));
	reap("executed", child);

	child = child_that_is_waited_for();
	if (child == 0) {
		atomic_fetch_add(shared, 1);
		kill(getpid(), SIGKILL);
	}
	say("the child was killed: %d", atomic_load(shared));
	reap("killed", child);

	// Other threads go on meanwhile.
	pthread_t other = start(add_meanwhile, NULL);
	for (int i = 0; i < 10; i++) {
		child = child_that_is_waited_for();
		if (child == 0) {
			atomic_fetch_add(shared, 1);
			_exit(0);
		}
		CHECK(waitpid(child, NULL, 0) == child);
	}
	join(other);
	say("both have counted: %d %d", atomic_load(shared), atomic_load(&shared[1]));
	return 0;
}
