// Many processes in one memory at a time (CLONE_VM), and many more one behind the other, each
// killed where it is.
// covers: clone wait4 kill sched_yield pause
#include "guest.h"
#include <sched.h>
#include <sys/mman.h>

enum { AT_A_TIME = 24, KILLED = 150, STACK_BYTES = 64 * 1024 };

static volatile int arrived, may_go;
static char *stacks[AT_A_TIME];

static int take_part(void *number)
{
	__atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
	while (!may_go)
		sched_yield();
	return (int)(intptr_t)number;
}

static int stay(void *number)
{
	__atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
	do {
		if ((intptr_t)number % 2)
			pause();
	} while (arrived);
	return 1;
}

static pid_t begin(int (*function)(void *), int stack, int number)
{
	return clone(function, stacks[stack] + STACK_BYTES, CLONE_VM | SIGCHLD, (void *)(intptr_t)number);
}

int main(void)
{
	pid_t pids[AT_A_TIME];
	int status;
	for (int i = 0; i < AT_A_TIME; i++) {
		stacks[i] = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(stacks[i] != MAP_FAILED);
		CHECK((pids[i] = begin(take_part, i, i)) > 0);
	}
	while (arrived < AT_A_TIME)
		sched_yield();
	may_go = 1;
	for (int i = 0; i < AT_A_TIME; i++) {
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == i);
	}
	say("%d at a time", AT_A_TIME);
	for (int i = 0; i < KILLED; i++) {
		arrived = 0;
		CHECK((pids[0] = begin(stay, 0, i)) > 0);
		while (!arrived)
			sched_yield();
		CHECK(kill(pids[0], SIGKILL) == 0);
		CHECK(waitpid(pids[0], &status, 0) == pids[0]);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	say("%d killed", KILLED);
	return 0;
}
