// Processes that share memory without being threads, with and without shared signal handlers.
// covers: clone wait4 futex
#include "threads.h"
#include <sys/mman.h>

#define STACK_BYTES 65536

static atomic_int from_parent, from_child;
static int plain_word;

static void on_usr1(int number)
{
	(void)number;
}

static int converse(void *argument)
{
	(void)argument;
	for (int i = 1; i <= 20; i++) {
		await(&from_parent);
		atomic_store(&from_parent, 0);
		plain_word = plain_word * 3 + i;
		post(&from_child, i);
	}
	return 4;
}

static int set_handler(void *argument)
{
	struct sigaction action = {.sa_handler = on_usr1};
	(void)argument;
	return sigaction(SIGUSR1, &action, NULL) == 0 ? 7 : 8;
}

static int close_descriptor(void *argument)
{
	return close(*(int *)argument) == 0 ? 2 : 3;
}

static pid_t clone_process(int (*body)(void *), int flags, void *argument)
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	CHECK(stack != MAP_FAILED);
	pid_t child = clone(body, stack + STACK_BYTES, flags, argument);
	CHECK(child > 0);
	return child;
}

static int handler_is_set(void)
{
	struct sigaction now;
	CHECK(sigaction(SIGUSR1, NULL, &now) == 0);
	return now.sa_handler == on_usr1;
}

int main(void)
{
	pid_t child = clone_process(converse, CLONE_VM | SIGCHLD, NULL);
	for (int i = 1; i <= 20; i++) {
		post(&from_parent, i);
		CHECK(await(&from_child) == i);
		atomic_store(&from_child, 0);
		plain_word ^= i;
	}
	reap("conversation", child);
	say("both wrote: %d", plain_word);

	reap("own handlers", clone_process(set_handler, CLONE_VM | SIGCHLD, NULL));
	say("the parent's handler is set: %d", handler_is_set());
	reap("shared handlers", clone_process(set_handler, CLONE_VM | CLONE_SIGHAND | SIGCHLD, NULL));
	say("the parent's handler is set: %d", handler_is_set());

	int fd = dup(1);
	CHECK(fd >= 0);
	reap("own descriptors", clone_process(close_descriptor, CLONE_VM | SIGCHLD, &fd));
	say("open: %d", fcntl(fd, F_GETFD) != -1);
	reap("shared descriptors", clone_process(close_descriptor, CLONE_VM | CLONE_FILES | SIGCHLD, &fd));
	say("open: %d", fcntl(fd, F_GETFD) != -1);

	// No exit signal: only __WCLONE finds it.
	int status;
	child = clone_process(set_handler, CLONE_VM, NULL);
	CHECK_ERR(waitpid(child, &status, 0), ECHILD);
	CHECK(waitpid(child, &status, __WCLONE) == child);
	say_status("without exit signal", status);
	CHECK_ERR(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, NULL, NULL, NULL, 0), EINVAL);
	CHECK_ERR(syscall(SYS_clone, CLONE_VM | CLONE_THREAD, NULL, NULL, NULL, 0), EINVAL);
	return 0;
}
