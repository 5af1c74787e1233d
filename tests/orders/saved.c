// Waits to be killed: one thread sleeps, one computes. What is done with signals is the default
// all along, as far as the program can see.
#include "live.h"
#include <signal.h>

static void noted(int signal)
{
	(void)signal;
}

static void *computes(void *unused)
{
	for (uint64_t seed = 1;; seed++)
		CHECK(compute(seed, 100000) != 0);
	return unused;
}

int main(void)
{
	struct sigaction was;
	for (int round = 0; round < 2; round++) {
		CHECK(sigaction(SIGTERM, NULL, &was) == 0 && was.sa_handler == SIG_DFL);
		CHECK(signal(SIGTERM, noted) == SIG_DFL && raise(SIGTERM) == 0);
		CHECK(signal(SIGTERM, SIG_DFL) == noted);
	}
	CHECK(sigaction(SIGABRT, NULL, &was) == 0 && was.sa_handler == SIG_DFL);
	// One that is blocked waits.
	sigset_t blocked, waiting;
	CHECK(sigemptyset(&blocked) == 0 && sigaddset(&blocked, SIGTERM) == 0);
	CHECK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0 && raise(SIGTERM) == 0);
	CHECK(sigpending(&waiting) == 0 && sigismember(&waiting, SIGTERM) == 1);
	CHECK(sigwaitinfo(&blocked, NULL) == SIGTERM);
	CHECK(sigprocmask(SIG_UNBLOCK, &blocked, NULL) == 0);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, computes, NULL) == 0);
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		usleep(1000);
}
