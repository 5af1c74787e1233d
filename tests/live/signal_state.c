// Handlers, masks, alternate stacks and pending signals are after a rollback what they
// were, of every thread.
// prints: handlers
// prints: masks
// prints: alternate stack
// prints: pending then, pending now
// prints: delivered once
#include "live.h"

static atomic_int go, step, first_calls, second_calls;

static void first(int number)
{
	(void)number;
	first_calls++;
}

static void second(int number)
{
	(void)number;
	second_calls++;
}

static int is_blocked(int number)
{
	sigset_t now;
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
	return sigismember(&now, number);
}

static void *other(void *argument)
{
	(void)argument;
	mask(SIG_BLOCK, SIGHUP);
	post(&step, 1);
	await(&go);
	CHECK(is_blocked(SIGHUP) && !is_blocked(SIGTERM));
	mask(SIG_UNBLOCK, SIGHUP);
	mask(SIG_BLOCK, SIGTERM);
	return NULL;
}

int main(void)
{
	need_session();
	static char stacks[2][64 * 1024];
	stack_t alternate = {.ss_sp = stacks[0], .ss_size = sizeof stacks[0]}, old;
	pthread_t thread = start(other, NULL);
	await(&step);
	handle(SIGUSR1, first, SA_RESTART);
	handle(SIGINT, SIG_DFL, 0);
	mask(SIG_BLOCK, SIGUSR1);
	CHECK(sigaltstack(&alternate, NULL) == 0);
	CHECK(raise(SIGUSR1) == 0);

	int id = checkpoint();
	if (first_time(id)) {
		handle(SIGUSR1, second, 0);
		handle(SIGINT, second, 0);
		mask(SIG_UNBLOCK, SIGUSR1);
		CHECK(atomic_load(&second_calls) == 1);
		mask(SIG_BLOCK, SIGUSR2);
		alternate.ss_sp = stacks[1];
		CHECK(sigaltstack(&alternate, NULL) == 0);
		post(&go, 1);
		join(thread);
		back(id);
	}
	struct sigaction action;
	CHECK(sigaction(SIGUSR1, NULL, &action) == 0);
	CHECK(action.sa_handler == first && action.sa_flags & SA_RESTART);
	CHECK(sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
	say("handlers");
	CHECK(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
	post(&go, 1);
	join(thread);
	say("masks");
	CHECK(sigaltstack(NULL, &old) == 0 && old.ss_sp == stacks[0]);
	say("alternate stack");
	sigset_t pending;
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
	say("pending then, pending now");
	mask(SIG_UNBLOCK, SIGUSR1);
	CHECK(atomic_load(&first_calls) == 1 && atomic_load(&second_calls) == 0);
	say("delivered once");
	return 0;
}
