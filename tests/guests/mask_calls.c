// Threads in sigsuspend, ppoll, pselect and epoll_pwait, whose masks let one signal in.
// covers: rt_sigsuspend ppoll pselect6 epoll_pwait
#include "threads.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static atomic_int here, handled;
static int pipe_ends[2], epoll;

static void on_usr1(int number)
{
	(void)number;
	atomic_store(&handled, own_tid());
}

static long in_sigsuspend(const sigset_t *open)
{
	return sigsuspend(open);
}

static long in_ppoll(const sigset_t *open)
{
	struct pollfd in = {.fd = pipe_ends[0], .events = POLLIN};
	return ppoll(&in, 1, NULL, open);
}

static long in_pselect(const sigset_t *open)
{
	fd_set in;
	FD_ZERO(&in);
	FD_SET(pipe_ends[0], &in);
	return pselect(pipe_ends[0] + 1, &in, NULL, NULL, NULL, open);
}

static long in_epoll_pwait(const sigset_t *open)
{
	struct epoll_event event;
	return epoll_pwait(epoll, &event, 1, -1, open);
}

// Blocked outside of the call: the signal can come within it alone.
static void *wait_open(void *argument)
{
	long (*const *way)(const sigset_t *) = argument;
	sigset_t open, now;
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &open) == 0 && sigismember(&open, SIGUSR1));
	sigdelset(&open, SIGUSR1);
	announce(&here);
	CHECK_ERR((*way)(&open), EINTR);
	CHECK(atomic_load(&handled) == own_tid());
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
	return (void *)1;
}

int main(void)
{
	static long (*const ways[])(const sigset_t *) = {in_sigsuspend, in_ppoll, in_pselect, in_epoll_pwait};
	CHECK(pipe(pipe_ends) == 0);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(epoll >= 0);
	mask(SIG_BLOCK, SIGUSR1);
	handle(SIGUSR1, on_usr1, SA_RESTART);
	for (int round = 0; round < 6; round++)
		for (unsigned i = 0; i < COUNT(ways); i++) {
			atomic_store(&here, 0);
			atomic_store(&handled, 0);
			pthread_t thread = start(wait_open, (void *)&ways[i]);
			if (round % 3 == 0)
				until_asleep(&here);
			else if (round % 3 == 1)
				await(&here);
			// In the later rounds it is the process that is signalled: the main thread blocks it.
			CHECK((round < 3 ? pthread_kill(thread, SIGUSR1) : kill(getpid(), SIGUSR1)) == 0);
			say("way %u: %ld", i, join(thread));
		}
	return 0;
}
