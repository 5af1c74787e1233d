// Who has a robust mutex ends in every way, and who waits for it in every way has it then; an exec
// that fails keeps it. Last words in shared memory are seen.
// covers: set_robust_list futex execve kill exit_group
#include "threads.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

enum end { EXITS, KILLS_ITSELF, FAULTS, EXECUTES, IS_TERMINATED, ABORTS, RINGS, IS_KILLED, ENDS };
enum wait { BLOCKED, LATER, SPINNING, YIELDING, WAITS };

static volatile int *volatile nowhere = (volatile int *)8;

struct shared {
	pthread_mutex_t lock;
	atomic_int is_locked;
	volatile long count;
};

static struct shared *make(int protocol)
{
	struct shared *shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	make_robust(&shared->lock, protocol);
	return shared;
}

static void own(struct shared *shared, enum end end, enum wait wait)
{
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	char *const nothing[] = { "nothing", NULL };
	CHECK(execv("/nowhere/nothing", nothing) == -1 && execv("/etc/hostname", nothing) == -1);
	struct itimerval soon = { .it_value.tv_usec = 4000 };
	post(&shared->is_locked, 1);
	// Not before: it could end with nobody told.
	if (end == RINGS)
		CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	while (end == RINGS || end == IS_TERMINATED || end == IS_KILLED)
		shared->count++;
	if (wait == BLOCKED)
		usleep(4000);
	switch (end) {
	case EXITS:
		_exit(3);
	case KILLS_ITSELF:
		raise(SIGKILL);
		break;
	case FAULTS:
		*nowhere = 1;
		break;
	case ABORTS:
		abort();
	default:
		execl("/bin/true", "true", NULL);
	}
	_exit(9);
}

static int lock(struct shared *shared, enum wait wait)
{
	if (wait == LATER)
		usleep(10000);
	if (wait == BLOCKED || wait == LATER)
		return pthread_mutex_lock(&shared->lock);
	int result;
	while ((result = pthread_mutex_trylock(&shared->lock)) == EBUSY)
		if (wait == YIELDING)
			sched_yield();
	return result;
}

// Another one ends who has the mutex, where this one waits in a call.
static pid_t end_other(pid_t owner, int signal, enum wait wait)
{
	if (wait != BLOCKED) {
		CHECK(kill(owner, signal) == 0);
		return 0;
	}
	pid_t killer = fork();
	CHECK(killer >= 0);
	if (killer == 0) {
		usleep(4000);
		kill(owner, signal);
		_exit(0);
	}
	return killer;
}

static void try(struct shared *shared, enum end end, enum wait wait)
{
	atomic_store(&shared->is_locked, 0);
	shared->count = 0;
	pid_t owner = fork();
	CHECK(owner >= 0);
	if (owner == 0)
		own(shared, end, wait);
	CHECK(await(&shared->is_locked) == 1);
	pid_t killer = 0;
	if (end == IS_TERMINATED || end == IS_KILLED)
		killer = end_other(owner, end == IS_KILLED ? SIGKILL : SIGTERM, wait);
	CHECK(lock(shared, wait) == EOWNERDEAD);
	nondet("counted %ld", shared->count);
	CHECK(pthread_mutex_consistent(&shared->lock) == 0);
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);
	int status;
	if (killer)
		CHECK(waitpid(killer, &status, 0) == killer && status == 0);
	CHECK(waitpid(owner, &status, 0) == owner);
	say("%d %d: %x", end, wait, status);
}

int main(void)
{
	struct rlimit none = { 0 };
	CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	// Ignored in the background of a shell.
	CHECK(signal(SIGALRM, SIG_DFL) != SIG_ERR && signal(SIGTERM, SIG_DFL) != SIG_ERR);
	static const int protocols[] = { PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT };
	for (size_t i = 0; i < COUNT(protocols); i++) {
		struct shared *shared = make(protocols[i]);
		for (enum end end = 0; end < ENDS; end++)
			for (enum wait wait = 0; wait < WAITS; wait++)
				try(shared, end, wait);
	}
	return 0;
}
