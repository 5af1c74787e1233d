// A signal handler goes back to before its signal came: raised, sent, by a timer while
// the program computes, by a fault, and on an alternate stack. Masks, pending signals
// and the alternate stack are then what they were.
// prints: return 0
// prints: return 1
// prints: return 2
// prints: return 3
// prints: return 4
#include "live.h"
#include <sys/time.h>

static int id;

static void go_back(int number)
{
	(void)number;
	back(id);
}

int main(void)
{
	need_session();
	stack_t stack = {.ss_sp = map(64 * 1024), .ss_size = 64 * 1024};
	CHECK(sigaltstack(&stack, NULL) == 0);
	handle(SIGUSR1, go_back, 0);
	handle(SIGALRM, go_back, SA_ONSTACK);
	handle(SIGSEGV, go_back, SA_ONSTACK);
	mask(SIG_BLOCK, SIGUSR2);

	id = checkpoint();
	int count = rv_rollbacks(id);
	say("return %d", count);

	sigset_t now, pending;
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
	CHECK(!sigismember(&now, SIGUSR1) && !sigismember(&now, SIGSEGV) && !sigismember(&now, SIGALRM));
	CHECK(sigismember(&now, SIGUSR2));
	CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGUSR2));
	stack_t used;
	CHECK(sigaltstack(NULL, &used) == 0 && used.ss_flags == 0 && used.ss_sp == stack.ss_sp);

	// It waits behind the mask, and goes with the branch that it came in.
	if (count < 4)
		CHECK(raise(SIGUSR2) == 0);
	struct itimerval soon = {.it_value = {.tv_usec = 20000}};
	switch (count) {
	case 0:
		raise(SIGUSR1);
		break;
	case 1:
		kill(getpid(), SIGUSR1);
		break;
	case 2:
		CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
		for (uint64_t seed = 1; seed != 0;)
			seed = compute(seed, 1000) | 1;
		break;
	case 3:
		*(volatile int *)BAD = 1;
		break;
	default:
		forget(id);
		return 0;
	}
	CHECK(!"the handler did not go back");
}
