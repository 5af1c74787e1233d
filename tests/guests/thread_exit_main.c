// The main thread ends by pthread_exit while others go on; the last one ends the process.
// covers: exit exit_group
// expect: exit 41
#include "threads.h"

static pthread_t first;

static void *go_on(void *argument)
{
	// Joins the main thread, which is then gone for good.
	say("the main thread returned %ld", join(first));
	say("computed %llx", (unsigned long long)compute((uintptr_t)argument, 300000));
	say("the process is the same: %d", getpid() != own_tid());
	return NULL;
}

static void *end_process(void *argument)
{
	join(first);
	exit((int)(long)argument);
}

static pid_t child_whose_main_ends(void *(*body)(void *), long argument)
{
	pid_t child = fork();
	if (child == 0) {
		first = pthread_self();
		start(body, (void *)argument);
		pthread_exit((void *)5);
	}
	return child;
}

// The exit call itself, without the C library: a zombie leader whose group lives.
static void *outlive(void *argument)
{
	(void)argument;
	char path[64], state = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", getpid());
	while (state != 'Z') {
		char text[256];
		int fd = open(path, O_RDONLY);
		CHECK(fd >= 0);
		ssize_t length = read(fd, text, sizeof text - 1);
		CHECK(length > 0 && close(fd) == 0);
		text[length] = 0;
		state = strrchr(text, ')')[2];
		sched_yield();
	}
	say("the leader is a zombie");
	exit(9);
}

int main(void)
{
	reap("last thread returns", child_whose_main_ends(go_on, 3));
	reap("last thread exits", child_whose_main_ends(end_process, 12));
	pid_t child = fork();
	if (child == 0) {
		start(outlive, NULL);
		syscall(SYS_exit, 1);
	}
	reap("leader called exit", child);
	first = pthread_self();
	start(end_process, (void *)41);
	pthread_exit(NULL);
}
