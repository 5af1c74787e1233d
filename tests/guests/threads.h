// What the guests with threads share: starting, joining, and words to wait for.
#ifndef THREADS_H
#define THREADS_H
#include "guest.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

GUEST_FN pthread_t start(void *(*body)(void *), void *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, body, argument) == 0);
	return thread;
}

GUEST_FN long join(pthread_t thread)
{
	void *result;
	CHECK(pthread_join(thread, &result) == 0);
	return (long)result;
}

GUEST_FN pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

// Sets a word that others await, in this process or in another.
GUEST_FN void post(atomic_int *word, int value)
{
	atomic_store(word, value);
	CHECK(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) >= 0);
}

// Waits until the word is not zero, and returns it.
GUEST_FN int await(atomic_int *word)
{
	int value;
	while ((value = atomic_load(word)) == 0)
		syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
	return value;
}

// A robust mutex in memory that processes share.
GUEST_FN void make_robust(pthread_mutex_t *lock, int protocol)
{
	pthread_mutexattr_t attributes;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
	CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
	CHECK(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
	CHECK(pthread_mutex_init(lock, &attributes) == 0);
}

// Takes a mutex whose owner died, makes it whole, and gives it back.
GUEST_FN void take_from_dead(pthread_mutex_t *lock)
{
	CHECK(pthread_mutex_lock(lock) == EOWNERDEAD);
	CHECK(pthread_mutex_consistent(lock) == 0);
	CHECK(pthread_mutex_unlock(lock) == 0);
}

// Tells the thread that calls until_asleep() who is about to block.
GUEST_FN void announce(atomic_int *word)
{
	post(word, own_tid());
}

// Waits until a thread that announced itself sleeps in a call, or is gone. It makes it
// likely that the thread is found blocked; what follows must be right if it is not.
GUEST_FN void until_asleep(atomic_int *word)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", await(word));
	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		ssize_t length = read(fd, text, sizeof text - 1);
		close(fd);
		if (length <= 0)
			return;
		text[length] = 0;
		const char *name_end = strrchr(text, ')');
		if (name_end && name_end[1] == ' ' && name_end[2] == 'S')
			return;
		sched_yield();
	}
}

// Work without calls; the same steps from the same seed give the same number.
GUEST_FN uint64_t compute(uint64_t seed, long steps)
{
	for (long i = 0; i < steps; i++)
		seed = (seed ^ (seed >> 29)) * 6364136223846793005u + 1442695040888963407u;
	return seed;
}

GUEST_FN void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
	CHECK(sigaction(number, &action, NULL) == 0);
}

GUEST_FN sigset_t set_of(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	return set;
}

GUEST_FN void mask(int how, int number)
{
	sigset_t set = set_of(number);
	CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

// So many nanoseconds from now, for calls that want a time and not a duration.
GUEST_FN struct timespec after_ns(clockid_t clock, long ns)
{
	struct timespec t;
	CHECK(clock_gettime(clock, &t) == 0);
	t.tv_nsec += ns;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

#endif
