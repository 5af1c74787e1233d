// Signals that a process sends itself: handlers, flags, arguments, order of delivery.
// covers: rt_sigaction rt_sigreturn kill tkill tgkill pause
#include "guest.h"
#include <sys/time.h>
#include <ucontext.h>

static volatile int count, depth, deepest, raises;

static void counting(int number)
{
	count += number;
}

static void with_info(int number, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	say("signal %d code %d from me %d", number, info->si_code, info->si_pid == getpid());
	CHECK(u->uc_mcontext.gregs[REG_RIP] != 0);
	CHECK((char *)u->uc_mcontext.gregs[REG_RSP] > (char *)0x1000);
}

static void recursing(int number)
{
	if (++depth > deepest)
		deepest = depth;
	if (++raises < 5)
		raise(number);
	depth--;
}

static void set(int number, void *handler, int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
	CHECK(sigaction(number, &action, NULL) == 0);
}

int main(void)
{
	set(SIGUSR1, counting, 0);
	CHECK(raise(SIGUSR1) == 0);
	CHECK(kill(getpid(), SIGUSR1) == 0);
	CHECK(syscall(SYS_tkill, syscall(SYS_gettid), SIGUSR1) == 0);
	CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1) == 0);
	say("count %d", count);
	set(SIGUSR2, with_info, SA_SIGINFO);
	raise(SIGUSR2);
	kill(getpid(), SIGUSR2);
	set(SIGHUP, recursing, SA_NODEFER);
	raise(SIGHUP);
	say("deepest with SA_NODEFER: %d", deepest);
	depth = deepest = raises = 0;
	set(SIGHUP, recursing, 0);
	raise(SIGHUP);
	say("deepest without: %d", deepest);
	set(SIGTERM, counting, SA_RESETHAND);
	raise(SIGTERM);
	struct sigaction old;
	CHECK(sigaction(SIGTERM, NULL, &old) == 0);
	say("reset to default: %d", old.sa_handler == SIG_DFL);
	set(SIGTERM, SIG_IGN, 0);
	raise(SIGTERM);
	raise(SIGCHLD);
	raise(SIGWINCH);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
		set(i, counting, 0);
		raise(i);
	}
	say("count %d", count);
	CHECK_ERR(kill(getpid(), 999), EINVAL);
	CHECK_ERR(kill(0x7ffffff, 0), ESRCH);
	CHECK_ERR(sigaction(SIGKILL, &old, NULL), EINVAL);
	CHECK(kill(getpid(), 0) == 0);

	// A child that waits in pause is woken by its parent.
	int ready[2];
	CHECK(pipe(ready) == 0);
	sigset_t usr1, before;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &usr1, &before) == 0);
	pid_t child = fork();
	if (child == 0) {
		count = 0;
		CHECK(write(ready[1], "r", 1) == 1);
		CHECK_ERR(sigsuspend(&before), EINTR);
		CHECK(count == SIGUSR1);
		// Again and again: the first may come before the pause.
		struct itimerval t = {{0, 20000}, {0, 20000}};
		set(SIGALRM, counting, 0);
		CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
		CHECK_ERR(pause(), EINTR);
		_exit(count >= SIGUSR1 + SIGALRM ? 24 : 1);
	}
	char byte;
	CHECK(read(ready[0], &byte, 1) == 1);
	CHECK(kill(child, SIGUSR1) == 0);
	reap("paused child", child);
	return 0;
}
