// Threads that start programs at the same time: posix_spawn, vfork, system and popen.
// covers: vfork clone3 execve wait4
#include "threads.h"
#include <spawn.h>

extern char **environ;
static char own_path[4096];
static atomic_int stop;

static int spawned(char *code)
{
	pid_t child;
	int status;
	char *argv[] = {own_path, code, NULL};
	CHECK(posix_spawn(&child, own_path, NULL, NULL, argv, environ) == 0);
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static int vforked(char *code)
{
	int status;
	char *argv[] = {own_path, code, NULL};
	pid_t child = vfork();
	if (child == 0) {
		execv(own_path, argv);
		_exit(126);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return status;
}

static int by_the_shell(char *code)
{
	char command[64];
	snprintf(command, sizeof command, "exit %s", code);
	return system(command);
}

static int by_a_pipe(char *code)
{
	char command[64], text[16] = "";
	snprintf(command, sizeof command, "echo %s", code);
	FILE *stream = popen(command, "r");
	CHECK(stream && fgets(text, sizeof text, stream));
	CHECK(pclose(stream) == 0);
	return atoi(text) << 8;
}

static int (*const ways[])(char *) = {spawned, vforked, by_the_shell, by_a_pipe};

static void *start_programs(void *argument)
{
	long index = (long)argument, sum = 0;
	for (int i = 0; i < 3; i++) {
		char code[8];
		snprintf(code, sizeof code, "%ld", index * 10 + i);
		int status = ways[index](code);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == index * 10 + i);
		sum += WEXITSTATUS(status);
	}
	return (void *)sum;
}

static void *compute_on(void *argument)
{
	volatile uint64_t state = 1;
	while (!atomic_load(&stop))
		state = compute(state, 1000);
	return argument;
}

static void *fail_to_start(void *argument)
{
	pid_t child;
	char *argv[] = {"absent", NULL};
	(void)argument;
	return (void *)(long)posix_spawn(&child, "/absent/program", NULL, NULL, argv, environ);
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return atoi(argv[1]);
	CHECK(readlink("/proc/self/exe", own_path, sizeof own_path - 1) > 0);
	pthread_t threads[COUNT(ways)], busy = start(compute_on, NULL);
	for (unsigned i = 0; i < COUNT(ways); i++)
		threads[i] = start(start_programs, (void *)(long)i);
	for (unsigned i = 0; i < COUNT(ways); i++)
		say("way %u: %ld", i, join(threads[i]));
	say("an absent program: %s", errno_name((int)join(start(fail_to_start, NULL))));
	atomic_store(&stop, 1);
	join(busy);
	return 0;
}
