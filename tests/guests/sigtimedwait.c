// Signals taken without a handler.
// covers: rt_sigtimedwait
#include "guest.h"

int main(void)
{
	sigset_t set;
	siginfo_t info;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGALRM);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	struct timespec none = {0, 0}, some = {0, 20000000};
	CHECK_ERR(sigtimedwait(&set, &info, &none), EAGAIN);
	int64_t before = now_ns();
	CHECK_ERR(sigtimedwait(&set, &info, &some), EAGAIN);
	int64_t waited = now_ns() - before;
	nondet("waited %lld ns", (long long)waited);
	CHECK(waited >= 20000000);
	CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 5}) == 0);
	raise(SIGUSR1);
	CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
	CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
	say("value %d code %d", info.si_value.sival_int, info.si_code);
	pid_t child = fork();
	if (child == 0)
		_exit(31);
	CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
	CHECK(info.si_pid == child);
	say("child status %d code %d", info.si_status, info.si_code);
	reap("child", child);
	alarm(1);
	int number = 0;
	CHECK(sigwait(&set, &number) == 0);
	say("sigwait %d", number);
	CHECK_ERR(syscall(SYS_rt_sigtimedwait, &set, &info, &some, 3), EINVAL);
	return 0;
}
