// Blocked and pending signals, masks of handlers, order when unblocked, inheritance by fork.
// covers: rt_sigprocmask rt_sigpending
#include "guest.h"

static volatile char order[64];
static volatile int at;

static void note(int number)
{
	order[at++] = number == SIGUSR1 ? '1' : number == SIGUSR2 ? '2' : 'r';
	if (number == SIGUSR1) {
		raise(SIGUSR2); // Blocked by sa_mask: it comes when this handler returns.
		order[at++] = '.';
	}
}

int main(void)
{
	sigset_t all, old, pending;
	struct sigaction action = {.sa_handler = note};
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGUSR2);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	sigemptyset(&action.sa_mask);
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
	CHECK(sigaction(SIGRTMIN, &action, NULL) == 0);
	sigfillset(&all);
	CHECK(sigprocmask(SIG_SETMASK, &all, &old) == 0);
	for (int i = 0; i < 3; i++)
		raise(SIGRTMIN); // Real-time signals queue.
	raise(SIGUSR1);
	raise(SIGUSR1); // Ordinary ones do not.
	CHECK(sigpending(&pending) == 0);
	say("pending %d %d %d", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2),
	    sigismember(&pending, SIGRTMIN));
	say("seen while blocked: %d", at);
	pid_t child = fork();
	if (child == 0) {
		CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGUSR1));
		CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
		_exit(at);
	}
	reap("child, nothing pending", child);
	CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
	say("order %.*s", at, (char *)order);
	sigset_t now;
	CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
	CHECK(memcmp(&now, &old, 8) == 0);
	CHECK_ERR(sigprocmask(77, &all, NULL), EINVAL);
	CHECK_ERR(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, 4), EINVAL);
	// SIGKILL and SIGSTOP cannot be blocked.
	CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0 && sigprocmask(0, NULL, &now) == 0);
	say("blocked KILL %d STOP %d SEGV %d SYS %d TRAP %d", sigismember(&now, SIGKILL),
	    sigismember(&now, SIGSTOP), sigismember(&now, SIGSEGV), sigismember(&now, SIGSYS),
	    sigismember(&now, SIGTRAP));
	at = 0;
	raise(SIGUSR2);
	CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
	CHECK(at == 1);
	// An ignored signal that was pending is gone.
	CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	raise(SIGUSR2);
	signal(SIGUSR2, SIG_IGN);
	CHECK(sigpending(&pending) == 0);
	say("pending after ignoring %d", sigismember(&pending, SIGUSR2));
	return 0;
}
