/* What a node waits for by a blocking read: a signal, a counter, a timer; and what it is told of a child that has run for a
 * while, which is nothing that differs between two runs. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int is_zero(const void *bytes, size_t length)
{
	static const char zeros[sizeof(struct rusage)];
	return memcmp(bytes, zeros, length) == 0;
}

/* The machine's clock counts it, in ticks of 10 ms. */
static pid_t child(unsigned seconds)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	for (volatile unsigned long i = 0; i < 200000000; i++)
		;
	sleep(seconds);
	_exit(0);
}

static void handle(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (signal != SIGCHLD || info->si_utime || info->si_stime)
		_exit(3);
}

int main(void)
{
	struct rusage usage;
	siginfo_t info;
	sigset_t set, before;
	uint64_t count;
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(SIGCHLD, &action, NULL);
	pid_t first = child(0);
	if (wait4(first, NULL, 0, &usage) != first || !is_zero(&usage, sizeof usage))
		return 4;
	puts("wait4");

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &before);
	child(0);
	if (sigwaitinfo(&set, &info) != SIGCHLD || info.si_utime || info.si_stime)
		return 5;
	wait(NULL);
	puts("sigwaitinfo");

	int signals = signalfd(-1, &set, 0);
	struct signalfd_siginfo read_info;
	child(1);
	if (read(signals, &read_info, sizeof read_info) != sizeof read_info)
		return 6;
	if (read_info.ssi_signo != SIGCHLD || read_info.ssi_utime || read_info.ssi_stime)
		return 7;
	wait(NULL);
	puts("signalfd");

	int counter = eventfd(0, 0);
	if (!fork()) {
		sleep(1);
		count = 3;
		_exit(write(counter, &count, sizeof count) != sizeof count);
	}
	if (read(counter, &count, sizeof count) != sizeof count || count != 3)
		return 8;
	wait(NULL);
	puts("eventfd");

	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec in_a_second = { .it_value.tv_sec = 1 };
	timerfd_settime(timer, 0, &in_a_second, NULL);
	if (read(timer, &count, sizeof count) != sizeof count || count != 1)
		return 9;
	puts("timerfd");
	return 0;
}
