// A signalfd read by threads: signals at the process, and those at the reader alone.
// covers: signalfd4 read poll
#include "threads.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/signalfd.h>

static int fd;
static atomic_int here, sum;
static sem_t counted;

static void *read_signals(void *argument)
{
	struct signalfd_siginfo info;
	announce(&here);
	for (;;) {
		CHECK(read(fd, &info, sizeof info) == sizeof info);
		CHECK(info.ssi_signo == (unsigned)SIGRTMIN);
		if (info.ssi_int == 0)
			return argument;
		atomic_fetch_add(&sum, info.ssi_int);
		CHECK(sem_post(&counted) == 0);
	}
}

// What is directed at a thread is read by that thread alone.
static void *read_own(void *argument)
{
	struct signalfd_siginfo info;
	struct pollfd in = {.fd = fd, .events = POLLIN};
	CHECK(pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){.sival_int = 9}) == 0);
	CHECK(poll(&in, 1, -1) == 1);
	post(argument, 1);
	CHECK(await((atomic_int *)argument + 1) == 1);
	CHECK(read(fd, &info, sizeof info) == sizeof info);
	return (void *)(long)info.ssi_int;
}

int main(void)
{
	static atomic_int words[2];
	sigset_t set = set_of(SIGRTMIN);
	struct signalfd_siginfo info;
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(sem_init(&counted, 0, 0) == 0);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	CHECK(fd >= 0);
	pthread_t readers[2] = {start(read_signals, NULL), start(read_signals, NULL)};
	until_asleep(&here);
	for (int i = 1; i <= 50; i++)
		CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
	for (int i = 1; i <= 50; i++)
		CHECK(sem_wait(&counted) == 0);
	say("two readers got %d", atomic_load(&sum));
	for (int i = 0; i < 2; i++)
		CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 0}) == 0);
	for (int i = 0; i < 2; i++)
		join(readers[i]);
	CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	pthread_t own = start(read_own, words);
	await(&words[0]);
	CHECK_ERR(read(fd, &info, sizeof info), EAGAIN);
	post(&words[1], 1);
	say("its own reader got %ld", join(own));
	return 0;
}
