// Signals with values, between processes, in order.
// covers: rt_sigqueueinfo rt_tgsigqueueinfo
#include "guest.h"

static volatile int values[64], seen;

static void handler(int number, siginfo_t *info, void *context)
{
	(void)context;
	(void)number;
	values[seen++] = info->si_value.sival_int;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigset_t set, old;
	CHECK(sigaction(SIGRTMIN + 3, &action, NULL) == 0);
	CHECK(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 41}) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
	for (int i = 0; i < 10; i++)
		CHECK(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = i * i}) == 0);
	pid_t child = fork();
	if (child == 0) {
		for (int i = 100; i < 105; i++)
			CHECK(sigqueue(getppid(), SIGRTMIN + 3, (union sigval){.sival_int = i}) == 0);
		_exit(0);
	}
	reap("sender", child);
	siginfo_t info = {.si_signo = SIGRTMIN + 3, .si_code = SI_QUEUE};
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = 555;
	CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGRTMIN + 3, &info) == 0);
	info.si_value.sival_int = 666;
	CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGRTMIN + 3, &info) == 0);
	info.si_code = SI_USER;
	CHECK_ERR(syscall(SYS_rt_sigqueueinfo, 1, SIGRTMIN + 3, &info), EPERM);
	CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
	// The thread's own queue comes before the process's; within each the order is kept.
	for (int i = 0; i < seen; i++)
		printf("%d ", values[i]);
	say("(%d)", seen);
	return 0;
}
