// The signals of faults and traps, sent by kill: blocked, waited for, ignored,
// fatal, and kept over execve.
// covers: rt_sigpending rt_sigtimedwait rt_sigprocmask execve
#include "guest.h"

static volatile int got;

static void on_signal(int number)
{
	got = number;
}

static const int numbers[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};

static int is_pending(int number)
{
	sigset_t set;
	sigpending(&set);
	return sigismember(&set, number);
}

static void report(void)
{
	sigset_t mask;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int i = 0; i < 6; i++) {
		struct sigaction action;
		sigaction(numbers[i], NULL, &action);
		say("%d: blocked %d pending %d ignored %d", numbers[i],
		    sigismember(&mask, numbers[i]), is_pending(numbers[i]),
		    action.sa_handler == SIG_IGN);
	}
}

static void one(int number)
{
	sigset_t set, before;
	struct timespec second = {1, 0};
	int status;
	sigemptyset(&set);
	sigaddset(&set, number);
	signal(number, on_signal);
	sigprocmask(SIG_BLOCK, &set, &before);
	got = 0;
	raise(number);
	say("%d: got %d pending %d", number, got, is_pending(number));
	CHECK(sigtimedwait(&set, NULL, &second) == number);
	CHECK(!is_pending(number));
	raise(number);
	sigprocmask(SIG_SETMASK, &before, NULL);
	CHECK(got == number);
	signal(number, SIG_DFL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(number);
	CHECK(is_pending(number));
	signal(number, SIG_IGN);
	CHECK(!is_pending(number));
	sigprocmask(SIG_SETMASK, &before, NULL);
	pid_t child = fork();
	if (child == 0) {
		signal(number, SIG_DFL);
		sigprocmask(SIG_BLOCK, &set, NULL);
		raise(number);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number);
}

int main(int count, char **words)
{
	if (count > 1) {
		report();
		return 0;
	}
	for (int i = 0; i < 6; i++)
		one(numbers[i]);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGSYS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGSYS, SIG_DFL);
	raise(SIGSYS);
	execl("/proc/self/exe", words[0], "report", NULL);
	return 1;
}
