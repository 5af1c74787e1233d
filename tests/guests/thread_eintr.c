// A signal at a blocked thread ends its call with EINTR, or restarts it under SA_RESTART.
// covers: read nanosleep poll tgkill
#include "threads.h"
#include <poll.h>

static atomic_int here, handled, done;
static int pipe_ends[2];

static void on_usr1(int number)
{
	(void)number;
	atomic_fetch_add(&handled, 1);
}

static void *in_read(void *argument)
{
	char byte = 0;
	(void)argument;
	announce(&here);
	long result = read(pipe_ends[0], &byte, 1);
	long error = errno;
	atomic_store(&done, 1);
	return (void *)(result == 1 ? (long)byte : -error);
}

static void *in_poll(void *argument)
{
	struct pollfd in = {.fd = pipe_ends[0], .events = POLLIN};
	(void)argument;
	announce(&here);
	long result = poll(&in, 1, -1);
	long error = errno;
	atomic_store(&done, 1);
	return (void *)(result == 1 ? 1 : -error);
}

static void *in_nanosleep(void *argument)
{
	struct timespec nap = {1000, 0}, left = {0, 0};
	(void)argument;
	announce(&here);
	long result = nanosleep(&nap, &left);
	long error = errno;
	CHECK(left.tv_sec > 0);
	atomic_store(&done, 1);
	return (void *)(result == 0 ? 1 : -error);
}

// Unlike sem_wait, which returns EINTR, the lock goes on waiting.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *in_lock(void *argument)
{
	(void)argument;
	announce(&here);
	CHECK(pthread_mutex_lock(&lock) == 0);
	atomic_store(&done, 1);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return (void *)2;
}

static pthread_t begin(void *(*body)(void *), int flags)
{
	atomic_store(&here, 0);
	atomic_store(&done, 0);
	handle(SIGUSR1, on_usr1, flags);
	pthread_t thread = start(body, NULL);
	until_asleep(&here);
	return thread;
}

// A signal that comes before the call has begun interrupts nothing: so it is sent again.
static void interrupted(const char *name, void *(*body)(void *), int flags)
{
	pthread_t thread = begin(body, flags);
	while (!atomic_load(&done)) {
		CHECK(pthread_kill(thread, SIGUSR1) == 0);
		until_asleep(&here);
		sched_yield();
	}
	say("%s: %s", name, errno_name((int)-join(thread)));
}

static void restarted(const char *name, void *(*body)(void *))
{
	pthread_t thread = begin(body, SA_RESTART);
	for (int i = 0; i < 5; i++) {
		int before = atomic_load(&handled);
		CHECK(pthread_kill(thread, SIGUSR1) == 0);
		while (atomic_load(&handled) == before)
			sched_yield();
		until_asleep(&here);
	}
	CHECK(atomic_load(&done) == 0);
	if (body == in_lock)
		CHECK(pthread_mutex_unlock(&lock) == 0);
	else
		CHECK(write(pipe_ends[1], "r", 1) == 1);
	say("%s under SA_RESTART: %ld", name, join(thread));
}

int main(void)
{
	CHECK(pipe(pipe_ends) == 0);
	for (int i = 0; i < 3; i++) {
		interrupted("read", in_read, 0);
		interrupted("poll", in_poll, 0);
		interrupted("nanosleep", in_nanosleep, 0);
		// These two never restart, whatever the flags say.
		interrupted("poll under SA_RESTART", in_poll, SA_RESTART);
		interrupted("nanosleep under SA_RESTART", in_nanosleep, SA_RESTART);
		restarted("read", in_read);
		CHECK(pthread_mutex_lock(&lock) == 0);
		restarted("a lock", in_lock);
	}
	return 0;
}
