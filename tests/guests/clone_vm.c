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

static int do_nothing(void *argument)
{
	(void)argument;
	return 0;
}

static pthread_mutex_t robust;

static void *lock_robust(void *argument)
{
	(void)argument;
	return (void *)(long)pthread_mutex_lock(&robust);
}

// A child in this memory ends: of that only its own word tells.
static void end_a_child(int flags, const char *how)
{
	static atomic_int word;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	CHECK(stack != MAP_FAILED);
	pthread_mutexattr_t attributes;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
	CHECK(pthread_mutex_init(&robust, &attributes) == 0);
	CHECK(pthread_mutex_lock(&robust) == 0);
	atomic_store(&word, -1);
	pid_t child = clone(do_nothing, stack + STACK_BYTES,
			    flags | CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, NULL, NULL,
			    NULL, &word);
	CHECK(child > 0);
	for (int value; (value = atomic_load(&word)) != 0;)
		syscall(SYS_futex, &word, FUTEX_WAIT, value, NULL, NULL, 0);
	reap(how, child);
	CHECK(pthread_mutex_unlock(&robust) == 0);
	say("the lock is still good: %ld", join(start(lock_robust, NULL)));
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
	end_a_child(0, "ended in this memory");
	end_a_child(CLONE_VFORK, "ended by itself");
	return 0;
}
