// A handler that is taken away when it runs (SA_RESETHAND), or that a new process does not inherit
// (CLONE_CLEAR_SIGHAND): the next such signal ends the process, while a thread of it owns a robust
// mutex and computes.
// covers: rt_sigaction setitimer clone3
#include "threads.h"
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/time.h>

struct shared {
	pthread_mutex_t lock;
	atomic_int is_owned, is_handled;
	volatile unsigned long count;
};

static struct shared *shared;

static void note(int signal)
{
	(void)signal;
	post(&shared->is_handled, 1);
}

static void own(void)
{
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	post(&shared->is_owned, 1);
	for (;;)
		shared->count++;
}

static void sent_twice(void)
{
	handle(SIGTERM, note, SA_RESETHAND);
	own();
}

static void timed_twice(void)
{
	const struct itimerval each = { { 0, 5000 }, { 0, 5000 } };
	handle(SIGALRM, note, SA_RESETHAND | SA_RESTART);
	CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
	own();
}

static void queued_twice(void)
{
	const union sigval none = { 0 };
	sigset_t blocked;
	handle(SIGRTMIN + 1, note, SA_RESETHAND | SA_NODEFER);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN + 1);
	CHECK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(sigqueue(getpid(), SIGRTMIN + 1, none) == 0);
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	CHECK(sigprocmask(SIG_UNBLOCK, &blocked, NULL) == 0);
}

// The C library takes this process for its parent, and so does the mutex.
static pid_t fork_without_handlers(void)
{
	struct clone_args arguments = { .flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD };
	return syscall(SYS_clone3, &arguments, sizeof arguments);
}

static void not_inherited(void)
{
	post(&shared->is_owned, 1);
	for (;;)
		shared->count++;
}

static void (*const ends[])(void) = { sent_twice, timed_twice, queued_twice, not_inherited };

int main(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	handle(SIGTERM, note, 0);
	for (size_t i = 0; i < COUNT(ends); i++) {
		make_robust(&shared->lock, PTHREAD_PRIO_NONE);
		atomic_store(&shared->is_owned, 0);
		atomic_store(&shared->is_handled, 0);
		pid_t owner = ends[i] == not_inherited ? fork_without_handlers() : fork();
		CHECK(owner >= 0);
		if (owner == 0) {
			ends[i]();
			_exit(1);
		}
		if (ends[i] == sent_twice || ends[i] == not_inherited)
			CHECK(await(&shared->is_owned) == 1 && kill(owner, SIGTERM) == 0);
		if (ends[i] == sent_twice)
			CHECK(await(&shared->is_handled) == 1 && kill(owner, SIGTERM) == 0);
		int status;
		CHECK(waitpid(owner, &status, 0) == owner && WIFSIGNALED(status));
		if (ends[i] != not_inherited)
			take_from_dead(&shared->lock);
		say("signal %d", WTERMSIG(status));
		nondet("%lu", shared->count);
	}
	return 0;
}
