// A checkpoint taken inside of a signal handler, gone back to when the handler has long
// returned: the handler is under way again, on its frame, with its mask.
// prints: handler 0
// prints: handler returned
// prints: handler 1
// prints: handler returned
// prints: handler 2
// prints: handler returned
#include "live.h"

static int id, count, on_frame;

static void take(int number)
{
	int local = number * 3;
	id = checkpoint();
	count = rv_rollbacks(id);
	sigset_t now;
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
	CHECK(sigismember(&now, SIGUSR1) && local == SIGUSR1 * 3 && on_frame == 0);
	on_frame = 1;
	say("handler %d", count);
}

int main(void)
{
	need_session();
	stack_t stack = {.ss_sp = map(64 * 1024), .ss_size = 64 * 1024};
	CHECK(sigaltstack(&stack, NULL) == 0);
	handle(SIGUSR1, take, SA_ONSTACK);
	int local = 5;
	CHECK(raise(SIGUSR1) == 0);
	CHECK(local == 5 && on_frame == 1);
	sigset_t now;
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1));
	say("handler returned");
	local = 6;
	memset(stack.ss_sp, 0x77, stack.ss_size);
	if (count < 2)
		back(id);
	forget(id);
	CHECK(hidden(local) == 6);
	return 0;
}
