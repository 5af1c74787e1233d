// What a call that waits writes is there when it is over, not before: other threads see what was there.
// covers: poll ppoll select waitid
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <sys/select.h>
#include <sys/wait.h>

static struct pollfd polled;
static siginfo_t told;
static fd_set asked;
static int ends[2];

static void rest(void)
{
	nanosleep(&(struct timespec){0, 30000000}, NULL);
}

static void *looks(void *what)
{
	rest();
	switch (*(const char *)what) {
	case 'p':
		say("while it polls: events %d, found %d", polled.events, ((volatile struct pollfd *)&polled)->revents);
		break;
	case 's':
		say("while it selects: %d", FD_ISSET(ends[0], (volatile fd_set *)&asked) != 0);
		break;
	case 'w':
		say("while it waits: signal %d", ((volatile siginfo_t *)&told)->si_signo);
		return NULL;
	}
	CHECK(write(ends[1], "x", 1) == 1);
	return NULL;
}

static pthread_t begin(const char *what)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, looks, (void *)what) == 0);
	return thread;
}

int main(void)
{
	char byte;
	CHECK(pipe(ends) == 0);
	for (int round = 0; round < 3; round++) {
		polled = (struct pollfd){ends[0], POLLIN, 0x41};
		pthread_t thread = begin("poll");
		if (round < 2)
			CHECK(poll(&polled, 1, round == 0 ? -1 : 5000) == 1);
		else
			CHECK(ppoll(&polled, 1, NULL, NULL) == 1);
		say("found %d", polled.revents);
		CHECK(pthread_join(thread, NULL) == 0 && read(ends[0], &byte, 1) == 1);
	}
	FD_ZERO(&asked);
	FD_SET(ends[0], &asked);
	pthread_t thread = begin("select");
	CHECK(select(ends[0] + 1, &asked, NULL, NULL, NULL) == 1);
	CHECK(pthread_join(thread, NULL) == 0 && read(ends[0], &byte, 1) == 1);
	pid_t child = fork();
	if (child == 0) {
		rest();
		rest();
		_exit(3);
	}
	told.si_signo = 77;
	thread = begin("wait");
	CHECK(waitid(P_PID, child, &told, WEXITED) == 0);
	say("told of signal %d, status %d", told.si_signo, told.si_status);
	CHECK(pthread_join(thread, NULL) == 0);
	return 0;
}
