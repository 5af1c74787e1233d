// Who has a filter: threads that are made, children, what they execute; and, if all threads
// shall have it, all threads.
// covers: seccomp
#include "filters.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>

static sem_t added, seen;

static long filter_rare(unsigned flags, int error)
{
	return FILTER(flags, DATA(nr), FOR(RARE, ERROR(error)), RETURN(SECCOMP_RET_ALLOW));
}

static void *ask(void *argument)
{
	return argument + (getpgid(0) == -1 ? errno : 0);
}

static void *ask_twice(void *argument)
{
	long first = getpgid(0) == -1 ? errno : 0;
	sem_post(&seen);
	sem_wait(&added);
	return argument + 100 * first + (getpgid(0) == -1 ? errno : 0);
}

static void *own_filter(void *argument)
{
	CHECK(filter_rare(0, (long)argument) == 0);
	sem_post(&seen);
	sem_wait(&added);
	return ask(NULL);
}

static long join(pthread_t thread)
{
	void *result;
	CHECK(pthread_join(thread, &result) == 0);
	return (long)result;
}

static void threads(void)
{
	pthread_t before, after, other;
	CHECK(pthread_create(&before, NULL, ask_twice, NULL) == 0);
	sem_wait(&seen);
	CHECK(filter_rare(0, EDOM) == 0);
	sem_post(&added);
	say("made before %ld", join(before));
	CHECK(pthread_create(&after, NULL, ask, NULL) == 0);
	say("made after %ld", join(after));
	// Both have our first filter, and get the second.
	CHECK(pthread_create(&before, NULL, ask_twice, NULL) == 0);
	sem_wait(&seen);
	CHECK(filter_rare(SECCOMP_FILTER_FLAG_TSYNC, ERANGE) == 0);
	sem_post(&added);
	say("together %ld", join(before));
	// One with a filter of its own cannot follow.
	CHECK(pthread_create(&other, NULL, own_filter, (void *)EXDEV) == 0);
	sem_wait(&seen);
	say("not together %d", filter_rare(SECCOMP_FILTER_FLAG_TSYNC, ENOLCK) > 0);
	CHECK_ERR(filter_rare(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH, ENOLCK), ESRCH);
	CHECK_ERR(getpgid(0), ERANGE);
	sem_post(&added);
	say("its own %ld", join(other));
	CHECK(filter_rare(SECCOMP_FILTER_FLAG_TSYNC, ENOLCK) == 0);
	CHECK_ERR(getpgid(0), ENOLCK);
}

// Many threads that have one each, one after the other: places are used again.
static void many_threads(void)
{
	for (long index = 1; index <= 60; index++) {
		struct sock_filter long_filter[1000];
		for (int at = 0; at < 999; at++)
			long_filter[at] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, at);
		long_filter[999] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
		pid_t child = fork();
		if (child == 0) {
			CHECK(set_filter(0, long_filter, 1000) == 0);
			_exit(0);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, own_filter, (void *)index) == 0);
		sem_wait(&seen);
		sem_post(&added);
		CHECK(join(thread) == index);
	}
	say("many; %d", getpgid(0) > 0);
}

static void children(char *own_name)
{
	CHECK(filter_rare(0, EDOM) == 0);
	CHECK(filter_rare(SECCOMP_FILTER_FLAG_LOG, ENOLCK) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK_ERR(getpgid(0), ENOLCK);
		CHECK(filter_rare(0, ERANGE) == 0);
		execl("/proc/self/exe", own_name, "executed", NULL);
		_exit(1);
	}
	reap("forked", child);
	child = vfork();
	if (child == 0) {
		execl("/proc/self/exe", own_name, "executed", NULL);
		_exit(1);
	}
	reap("of vfork", child);
	char *arguments[] = {own_name, "executed", NULL}, *environment[] = {NULL};
	CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environment) == 0);
	reap("spawned", child);
	child = vfork();
	if (child == 0) {
		if (filter_rare(0, EUSERS) != 0)
			_exit(1);
		execl("/proc/self/exe", own_name, "executed", NULL);
		_exit(1);
	}
	reap("of vfork, with one more", child);
	CHECK_ERR(getpgid(0), ENOLCK);
}

int main(int count, char **arguments)
{
	if (count == 2) {
		CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
		CHECK(prctl(PR_GET_SECCOMP) == 2);
		CHECK(getpgid(0) == -1);
		say("executed: %s", errno_name(errno));
		CHECK(filter_rare(0, EISNAM) == 0);
		CHECK_ERR(getpgid(0), EISNAM);
		return 0;
	}
	gain_nothing();
	sem_init(&added, 0, 0);
	sem_init(&seen, 0, 0);
	pid_t child = fork();
	if (child == 0) {
		threads();
		_exit(0);
	}
	reap("threads", child);
	child = fork();
	if (child == 0) {
		many_threads();
		_exit(0);
	}
	reap("many threads", child);
	children(arguments[0]);
	return 0;
}
