// The process ends while its threads are blocked in calls or compute.
// covers: exit_group
// expect: exit 23
#include "threads.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>

static int pipe_ends[2];
static atomic_int here[8];

static void in_read(void)
{
	char byte;
	CHECK(read(pipe_ends[0], &byte, 1) == 1);
}

static void in_nanosleep(void)
{
	struct timespec long_time = {1000, 0};
	CHECK(nanosleep(&long_time, NULL) == 0);
}

static void in_poll(void)
{
	struct pollfd in = {.fd = pipe_ends[0], .events = POLLIN};
	CHECK(poll(&in, 1, -1) == 1);
}

static void in_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int epoll = epoll_create1(0);
	CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_ends[0], &event) == 0);
	CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
}

static void in_futex(void)
{
	sem_t never;
	CHECK(sem_init(&never, 0, 0) == 0);
	CHECK(sem_wait(&never) == 0);
}

static void in_pause(void)
{
	pause();
}

static void in_sigwait(void)
{
	sigset_t set = set_of(SIGUSR1);
	int number;
	CHECK(sigwait(&set, &number) == 0);
}

static void in_computation(void)
{
	volatile uint64_t state = 1;
	for (;;)
		state = compute(state, 1000);
}

static void (*const ways[])(void) = {in_read, in_nanosleep, in_poll, in_epoll,
				     in_futex, in_pause, in_sigwait, in_computation};

static void *block(void *argument)
{
	long way = (long)argument;
	announce(&here[way]);
	ways[way]();
	CHECK(0);
	return NULL;
}

static void start_all(void)
{
	for (unsigned i = 0; i < COUNT(ways); i++)
		start(block, (void *)(long)i);
	for (unsigned i = 0; i < COUNT(ways) - 1; i++)
		until_asleep(&here[i]);
	await(&here[COUNT(ways) - 1]);
}

static void *end(void *argument)
{
	exit((int)(long)argument);
}

static pid_t child_with_threads(void)
{
	pid_t child = fork();
	if (child == 0)
		start_all();
	return child;
}

int main(void)
{
	CHECK(pipe(pipe_ends) == 0);
	pid_t child = child_with_threads();
	if (child == 0)
		exit(21);
	reap("main called exit", child);
	child = child_with_threads();
	if (child == 0) {
		start(end, (void *)22);
		in_pause();
	}
	reap("a worker called exit", child);
	child = child_with_threads();
	if (child == 0) {
		raise(SIGKILL);
		in_pause();
	}
	reap("killed itself", child);
	child = child_with_threads();
	if (child == 0)
		for (;;)
			in_pause();
	CHECK(kill(child, SIGTERM) == 0);
	reap("terminated from outside", child);
	start_all();
	say("leaving");
	return 23;
}
