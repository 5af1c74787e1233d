// Children in their parent's memory die: of what they send to themselves, of SIGPIPE, by another
// process. The parent waits for the word that the kernel clears then (CLONE_CHILD_CLEARTID).
// covers: clone kill futex wait4
#include "threads.h"
#include <sys/mman.h>

#define STACK_BYTES 65536

enum way { BY_ITSELF, BY_PIPE, ASLEEP, COMPUTING, WAYS };

static volatile int tid;
static volatile unsigned long count;

static int child(void *argument)
{
	int ends[2];
	usleep(20000);
	switch (*(enum way *)argument) {
	case BY_ITSELF:
		raise(SIGKILL);
		break;
	case BY_PIPE:
		CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
		write(ends[1], "x", 1);
		break;
	case ASLEEP:
		for (;;)
			pause();
	default:
		for (;;)
			count++;
	}
	return 1;
}

static void kill_later(pid_t pid)
{
	pid_t killer = fork();
	CHECK(killer >= 0);
	if (killer != 0)
		return;
	char whom[16];
	snprintf(whom, sizeof whom, "%d", pid);
	execl("/proc/self/exe", "killed_in_parents_memory", whom, NULL);
	_exit(1);
}

int main(int argc, char **argv)
{
	if (argc == 2) {
		usleep(60000);
		return kill(atoi(argv[1]), SIGKILL) != 0;
	}
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != MAP_FAILED);
	for (enum way way = 0; way < WAYS; way++) {
		const int flags = CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
		tid = -1;
		pid_t pid = clone(child, stack + STACK_BYTES, flags, &way, &tid, NULL, &tid);
		CHECK(pid > 0);
		if (way >= ASLEEP)
			kill_later(pid);
		int then;
		while ((then = tid) != 0)
			syscall(SYS_futex, &tid, FUTEX_WAIT, then, NULL, NULL, 0);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		say("%d: signal %d", way, WTERMSIG(status));
		nondet("%lu", count);
		while (way >= ASLEEP && wait(&status) > 0)
			CHECK(status == 0);
	}
	return 0;
}
