// A debugger's start of a program: a child of vfork asks to be traced and executes it, while a
// thread of the debugger sleeps; the child's end of its recording changes nothing for that thread.
// covers: ptrace vfork futex
#include "guest.h"
#include <pthread.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int rounds, ended;

static void *sleeper(void *unused)
{
	pthread_mutex_lock(&mutex);
	while (!ended) {
		pthread_cond_wait(&told, &mutex);
		rounds++;
	}
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void trace_one(void)
{
	pid_t child = vfork();
	CHECK(child >= 0);
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(99);
		execl("/bin/true", "true", NULL);
		_exit(98);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
		nondet("refused");
		return;
	}
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	errno = 0;
	long rip = ptrace(PTRACE_PEEKUSER, child, (void *)offsetof(struct user_regs_struct, rip), NULL);
	CHECK(errno == 0);
	nondet("begins at %lx", rip);
	CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
	for (int i = 0; i < 5; i++)
		trace_one();
	pthread_mutex_lock(&mutex);
	ended = 1;
	pthread_cond_signal(&told);
	pthread_mutex_unlock(&mutex);
	CHECK(pthread_join(thread, NULL) == 0);
	nondet("%d rounds", rounds);
	say("traced");
	return 0;
}
