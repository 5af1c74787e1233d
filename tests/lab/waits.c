/* What a node waits for by a blocking call: a signal, a counter, a timer, the other end of a named pipe, a signal that only a
 * mask lets in, room for its output; and what it is told of a child that has run for a while, which is nothing that differs
 * between two runs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

static atomic_int flags[2];

static void *raise_flags(void *unused)
{
	for (int i = 0; i < 2; i++) {
		usleep(100000);
		atomic_store(&flags[i], 1);
	}
	return unused;
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

	char byte = 'x';
	if (mkfifo("fifo", 0600))
		return 10;
	if (!fork()) {
		sleep(1);
		_exit(write(open("fifo", O_WRONLY), &byte, 1) != 1);
	}
	int fifo = open("fifo", O_RDONLY);
	if (read(fifo, &byte, 1) != 1 || read(fifo, &byte, 1) != 0 || fcntl(fifo, F_GETFL) & O_NONBLOCK)
		return 11;
	wait(NULL);
	close(fifo);
	if (!fork()) {
		sleep(1);
		_exit(read(open("fifo", O_RDONLY), &byte, 1) != 1);
	}
	fifo = open("fifo", O_WRONLY);
	if (write(fifo, &byte, 1) != 1 || fcntl(fifo, F_GETFL) & O_NONBLOCK)
		return 12;
	wait(NULL);
	puts("fifo");

	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	mqd_t queue = mq_open("/waits", O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
	mq_unlink("/waits");
	if (!fork()) {
		sleep(1);
		_exit(mq_send(queue, "message", 8, 0) != 0);
	}
	char message[8];
	if (mq_receive(queue, message, sizeof message, NULL) != 8 || strcmp(message, "message"))
		return 17;
	wait(NULL);
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (mq_timedreceive(queue, message, sizeof message, NULL, &until) != -1 || errno != ETIMEDOUT)
		return 18;
	puts("queue");

	sigset_t none;
	struct epoll_event event;
	sigemptyset(&none);
	int set_of_none = epoll_create1(0);
	if (!fork()) {
		sleep(1);
		_exit(0);
	}
	if (epoll_pwait(set_of_none, &event, 1, 5000, &none) != -1 || errno != EINTR)
		return 13;
	wait(NULL);
	struct timeval left = { .tv_usec = 1000 };
	if (select(0, NULL, NULL, NULL, &left) != 0 || left.tv_usec)
		return 14;
	puts("epoll_pwait");

	pthread_t raiser;
	pthread_create(&raiser, NULL, raise_flags, NULL);
	while (!atomic_load(&flags[0]))
		__builtin_ia32_pause();
	while (!atomic_load(&flags[1]))
		;
	pthread_join(raiser, NULL);
	puts("flags");

	/* A loop with pauses that ends by itself takes next to no time, whatever is due at some time. */
	struct timespec began, now;
	alarm(100);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < 2000; i++)
		__builtin_ia32_pause();
	clock_gettime(CLOCK_MONOTONIC, &now);
	alarm(0);
	if (now.tv_sec - began.tv_sec > 1)
		return 17;
	puts("paused");

	/* Who waits until a time, and for it to be over, is not woken at that very time for ever. */
	unsigned word = 0;
	struct timespec end = now;
	end.tv_sec++;
	do {
		syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &end, NULL, FUTEX_BITSET_MATCH_ANY);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec || now.tv_nsec <= end.tv_nsec);
	puts("over");

	/* Who sleeps for no time, or polls without waiting, lets the other thread go on. */
	atomic_store(&flags[0], 0);
	pthread_create(&raiser, NULL, raise_flags, NULL);
	struct timespec none_at_all = { 0 };
	while (!atomic_load(&flags[0]))
		nanosleep(&none_at_all, NULL);
	pthread_join(raiser, NULL);
	atomic_store(&flags[0], 0);
	pthread_create(&raiser, NULL, raise_flags, NULL);
	while (!atomic_load(&flags[0]))
		select(0, NULL, NULL, NULL, &(struct timeval){ 0 });
	pthread_join(raiser, NULL);
	puts("no time");

	if (getpgrp() <= 0)
		return 15;
	size_t bytes = 300000;
	char *large = malloc(bytes);
	memset(large, 'a', bytes);
	large[bytes - 1] = '\n';
	fflush(stdout);
	for (size_t at = 0; at < bytes;) {
		ssize_t put = write(1, large + at, bytes - at);
		if (put <= 0)
			return 16;
		at += put;
	}
	puts("written");
	return 0;
}
