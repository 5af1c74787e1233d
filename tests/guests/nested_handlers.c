// Handlers that are interrupted by other signals, two deep in threads and three in the main one.
// covers: tgkill rt_sigreturn rt_sigprocmask
#include "threads.h"

static __thread char trail[128];
static __thread volatile int depth;

static void note(char what)
{
	size_t length = strlen(trail);
	CHECK(length < sizeof trail - 1);
	trail[length] = what;
}

static void innermost(int number)
{
	CHECK(number == SIGRTMIN && depth == 2);
	note('c');
}

static void middle(int number)
{
	CHECK(number == SIGUSR2 && depth == 1);
	depth++;
	note('b');
	CHECK(pthread_kill(pthread_self(), SIGRTMIN) == 0);
	note('B');
	depth--;
}

// SIGHUP is blocked while this runs: it comes afterwards.
static void outermost(int number)
{
	CHECK(number == SIGUSR1 && depth == 0);
	depth++;
	note('a');
	CHECK(pthread_kill(pthread_self(), SIGHUP) == 0);
	CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
	note('A');
	depth--;
}

static void afterwards(int number)
{
	CHECK(number == SIGHUP && depth == 0);
	note('h');
}

static void *repeat(void *argument)
{
	long count = 0;
	for (int i = 0; i < 200; i++) {
		depth = 1;
		memset(trail, 0, sizeof trail);
		CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
		CHECK(strcmp(trail, "bcB") == 0 && depth == 1);
		count += (long)strlen(trail);
	}
	return argument ? (void *)count : NULL;
}

int main(void)
{
	struct sigaction action = {.sa_handler = outermost};
	sigaddset(&action.sa_mask, SIGHUP);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	handle(SIGUSR2, middle, 0);
	handle(SIGRTMIN, innermost, 0);
	handle(SIGHUP, afterwards, 0);
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		threads[i] = start(repeat, (void *)1);
	for (int i = 0; i < 3; i++)
		say("thread %d: %ld", i, join(threads[i]));
	depth = 0;
	CHECK(raise(SIGUSR1) == 0);
	say("the main thread: %s", trail);
	return 0;
}
