// Results for memory that is not there, or may not be written: what the call says, alone and
// among threads.
// covers: epoll_wait wait4 clock_nanosleep getsockname lsm_list_modules
#include "threads.h"
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

static void *readable;

static void events_for(void *target, const char *what)
{
	int epoll = epoll_create1(0), pipes[2];
	CHECK(epoll >= 0 && pipe(pipes) == 0);
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) == 0);
	CHECK(write(pipes[1], "x", 1) == 1);
	long result = syscall(SYS_epoll_wait, epoll, target, 1, -1);
	say("epoll_wait, %s: %ld %s", what, result, result == -1 ? errno_name(errno) : "");
	CHECK(close(epoll) == 0 && close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static void status_for(void *target, const char *what)
{
	pid_t child = fork();
	if (child == 0)
		_exit(3);
	long result = syscall(SYS_wait4, child, target, 0, NULL);
	say("wait4, %s: %s", what, result == -1 ? errno_name(errno) : "reaped");
	CHECK_ERR(waitpid(child, NULL, 0), ECHILD);
}

// The kernel looks at other arguments before it comes to write.
static void lengths(void *target, const char *what)
{
	errno = 0;
	syscall(SYS_getsockname, -1, target, target);
	say("getsockname, %s: %s", what, errno_name(errno));
	errno = 0;
	syscall(461, target, target, -1);
	nondet("lsm_list_modules, %s: %s", what, errno_name(errno));
}

static void all(void)
{
	void *targets[] = {BAD, (void *)hidden(-1), (void *)hidden(-4), readable};
	const char *names[] = {"nothing", "the last byte", "the last word", "readable"};
	for (size_t i = 0; i < COUNT(targets); i++) {
		events_for(targets[i], names[i]);
		status_for(targets[i], names[i]);
		lengths(targets[i], names[i]);
	}
}

static void *stay(void *argument)
{
	await(argument);
	return NULL;
}

int main(void)
{
	readable = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(readable != MAP_FAILED);
	all();
	atomic_int ends = 0;
	pthread_t thread = start(stay, &ends);
	say("among threads");
	all();
	post(&ends, 1);
	join(thread);
	return 0;
}
