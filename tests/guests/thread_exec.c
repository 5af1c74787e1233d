// execve by a thread that is not the main one, with others blocked and computing.
// covers: execve
#include "threads.h"

static atomic_int computing, blocked;
static int pipe_ends[2];
// Not /proc/self/exe: that names nothing once the main thread is gone.
static char own_path[4096];

static void *compute_on(void *argument)
{
	volatile uint64_t state = 1;
	(void)argument;
	post(&computing, 1);
	for (;;)
		state = compute(state, 1000);
	return NULL;
}

static void *block(void *argument)
{
	char byte;
	(void)argument;
	announce(&blocked);
	CHECK(read(pipe_ends[0], &byte, 1) == 1);
	return NULL;
}

static void *execute(void *argument)
{
	char pid[16], *fails[] = {"absent", NULL};
	CHECK_ERR(execv("/absent/program", fails), ENOENT);
	CHECK(own_tid() != getpid());
	snprintf(pid, sizeof pid, "%d", getpid());
	execl(own_path, "guest", (char *)argument, pid, NULL);
	CHECK(0);
	return NULL;
}

static pid_t child_that_executes(char *how)
{
	pid_t child = fork();
	if (child == 0) {
		CHECK(pipe(pipe_ends) == 0);
		start(compute_on, NULL);
		start(block, NULL);
		await(&computing);
		until_asleep(&blocked);
		if (strcmp(how, "main gone") == 0) {
			start(execute, how);
			pthread_exit(NULL);
		}
		if (strcmp(how, "by main") == 0)
			execute(how);
		join(start(execute, how));
	}
	return child;
}

static void *length_of(void *text)
{
	return (void *)strlen(text);
}

int main(int argc, char **argv)
{
	if (argc == 3) {
		say("%s: same process %d, its only thread %d", argv[1], getpid() == atoi(argv[2]),
		    getpid() == own_tid());
		say("%s: threads work here too: %ld", argv[1], join(start(length_of, argv[1])));
		return (int)strlen(argv[1]);
	}
	CHECK(readlink("/proc/self/exe", own_path, sizeof own_path - 1) > 0);
	reap("worker", child_that_executes("by worker"));
	reap("main", child_that_executes("by main"));
	reap("main gone", child_that_executes("main gone"));
	return 0;
}
