// The signals of faults and traps, sent by kill to one who sleeps in a call: the call begins
// again where the handler says so, and does not end for one that is ignored or blocked.
// covers: rt_sigaction tgkill futex read poll
#include "guest.h"
#include "threads.h"
#include <poll.h>
#include <semaphore.h>

static const int numbers[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGSTKFLT};
static sem_t sleeps;
static int ends[2];
static volatile int handled;
static volatile pid_t sleeper;

static void on_signal(int number)
{
	(void)number;
	handled++;
}

static void *in_semaphore(void *result)
{
	sleeper = gettid();
	*(int *)result = sem_wait(&sleeps) == 0 ? 0 : errno;
	return NULL;
}

static void *in_read(void *result)
{
	char byte;
	sleeper = gettid();
	*(int *)result = read(ends[0], &byte, 1) == 1 ? 0 : errno;
	return NULL;
}

static void *in_poll(void *result)
{
	struct pollfd item = {.fd = ends[0], .events = POLLIN};
	char byte;
	sleeper = gettid();
	*(int *)result = poll(&item, 1, -1) == 1 ? 0 : errno;
	CHECK(read(ends[0], &byte, 1) == 1);
	return NULL;
}

static void *blocked(void *result)
{
	sigset_t all;
	sigfillset(&all);
	CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	return in_poll(result);
}

// Not before the kernel says that the thread is in this call.
static void until_it_sleeps(long call)
{
	char name[64], text[256];
	while (!sleeper)
		sched_yield();
	snprintf(name, sizeof name, "/proc/self/task/%d/syscall", sleeper);
	for (;;) {
		int file = open(name, O_RDONLY);
		CHECK(file >= 0);
		long length = read(file, text, sizeof text - 1);
		CHECK(length > 0 && close(file) == 0);
		text[length] = 0;
		if (text[0] != 'r' && strtol(text, NULL, 10) == call)
			return;
		sched_yield();
	}
}

static int ended_by(void *(*call)(void *), int number, int waits_for_handler)
{
	pthread_t thread;
	int result = -1;
	handled = 0;
	sleeper = 0;
	CHECK(pthread_create(&thread, NULL, call, &result) == 0);
	until_it_sleeps(call == in_semaphore ? SYS_futex : call == in_read ? SYS_read : SYS_poll);
	CHECK(pthread_kill(thread, number) == 0);
	while (waits_for_handler && !handled)
		sched_yield();
	if (call == in_semaphore)
		CHECK(sem_post(&sleeps) == 0);
	else
		CHECK(write(ends[1], "x", 1) == 1);
	CHECK(pthread_join(thread, NULL) == 0);
	if (result == EINTR && call == in_read) {
		char byte;
		CHECK(read(ends[0], &byte, 1) == 1);
	}
	return result;
}

int main(void)
{
	CHECK(pipe(ends) == 0 && sem_init(&sleeps, 0, 0) == 0);
	for (unsigned i = 0; i < COUNT(numbers); i++) {
		int number = numbers[i];
		struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
		CHECK(sigaction(number, &action, NULL) == 0);
		int in_sleep = ended_by(in_semaphore, number, 1);
		say("%d restarts: semaphore %d, read %d, poll %d", number, in_sleep,
		    ended_by(in_read, number, 1), ended_by(in_poll, number, 1));
		action.sa_flags = 0;
		CHECK(sigaction(number, &action, NULL) == 0);
		say("%d interrupts: read %d, blocked %d", number, ended_by(in_read, number, 1),
		    ended_by(blocked, number, 0));
		action.sa_handler = SIG_IGN;
		CHECK(sigaction(number, &action, NULL) == 0);
		say("%d ignored: read %d, poll %d", number, ended_by(in_read, number, 0),
		    ended_by(in_poll, number, 0));
	}
	return 0;
}
