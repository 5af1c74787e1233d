// The mask that handlers run with when they interrupt a call that replaced it.
// covers: rt_sigsuspend ppoll pselect6 epoll_pwait
#include "guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static void show(const char *where)
{
	sigset_t mask;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	say("%s: hup %d usr1 %d usr2 %d term %d", where, sigismember(&mask, SIGHUP),
	    sigismember(&mask, SIGUSR1), sigismember(&mask, SIGUSR2), sigismember(&mask, SIGTERM));
}

static void on_signal(int number)
{
	show(number == SIGUSR1 ? "usr1" : "usr2");
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t blocked, open;
	struct timespec second = {1, 0};
	sigaddset(&action.sa_mask, SIGHUP);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigemptyset(&open);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, NULL);

	raise(SIGUSR1);
	raise(SIGUSR2);
	CHECK_ERR(sigsuspend(&open), EINTR);
	show("after sigsuspend");
	raise(SIGUSR1);
	CHECK_ERR(ppoll(NULL, 0, &second, &open), EINTR);
	show("after ppoll");
	sigaddset(&open, SIGUSR2);
	raise(SIGUSR1);
	raise(SIGUSR2);
	CHECK_ERR(pselect(0, NULL, NULL, NULL, &second, &open), EINTR);
	show("after pselect");
	int epoll = epoll_create1(0);
	struct epoll_event event;
	raise(SIGUSR1);
	CHECK_ERR(epoll_pwait(epoll, &event, 1, 1000, &open), EINTR);
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
	return 0;
}
