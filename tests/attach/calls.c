// Threads in blocking calls of all kinds, which no one interrupts: a call that is under
// way when the session begins or lets go ends as if nothing had been. Handlers and a timer
// that were there before go on.
// prints-in-replay
// build: -pthread
#include "attach.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>

static int one[2], two[2], word;
static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void *reads(void *argument)
{
	char byte;
	for (;;)
		CHECK(read(one[0], &byte, 1) == 1);
	return argument;
}

static void *polls(void *argument)
{
	for (;;) {
		struct pollfd set = {two[0], POLLIN, 0};
		int ready = poll(&set, 1, 100);
		CHECK(ready >= 0);
		char byte;
		if (ready == 1)
			CHECK(read(two[0], &byte, 1) == 1);
	}
	return argument;
}

static void *polls_events(void *argument)
{
	int set = epoll_create1(0), ends[2];
	struct epoll_event event = {EPOLLIN, {0}};
	CHECK(pipe(ends) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
	for (;;)
		CHECK(epoll_wait(set, &event, 1, 70) == 0);
	return argument;
}

static void *sleeps(void *argument)
{
	for (;;) {
		struct timespec time = {0, 60000000};
		CHECK(nanosleep(&time, NULL) == 0);
		CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) == 0);
	}
	return argument;
}

static void *waits(void *argument)
{
	for (;;) {
		struct timespec time = {0, 80000000};
		CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) == -1 && errno == ETIMEDOUT);
	}
	return argument;
}

static void *waits_for_signals(void *argument)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	for (;;) {
		struct timespec time = {0, 90000000};
		CHECK(sigtimedwait(&set, NULL, &time) == -1 && errno == EAGAIN);
	}
	return argument;
}

static void *pauses(void *argument)
{
	pause();
	CHECK(!"pause ended");
	return argument;
}

int main(int argc, char **argv)
{
	permit();
	sigset_t set;
	sigfillset(&set);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(pipe(one) == 0 && pipe(two) == 0);
	void *(*all[])(void *) = {reads, polls, polls_events, sleeps, waits, waits_for_signals, pauses};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		start(all[i], 0);
	// Memory that another process can write to: such a one is not taken over.
	if (argc > 1 && strcmp(argv[1], "shared") == 0) {
		CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
		pid_t parent = getpid(), child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			while (getppid() == parent)
				pause();
			_exit(0);
		}
	}
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	sigemptyset(&set);
	CHECK(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
	struct itimerval every = {{0, 30000}, {0, 30000}};
	CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
	for (long step = 1;; step++) {
		CHECK(write(one[1], "x", 1) == 1);
		if (step % 3 == 0)
			CHECK(write(two[1], "y", 1) == 1);
		nap(10);
		CHECK(step < 20 || alarms > 0);
		printf("step %ld\n", step);
	}
}
