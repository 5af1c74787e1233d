// Handlers left by siglongjmp, thousands of times, from faults and from raise.
// covers: rt_sigprocmask
#include "guest.h"
#include <setjmp.h>

static sigjmp_buf point;

static void handler(int number)
{
	siglongjmp(point, number);
}

int main(void)
{
	volatile int faults = 0, raised = 0, divided = 0;
	signal(SIGSEGV, handler);
	signal(SIGUSR1, handler);
	signal(SIGFPE, handler);
	for (volatile int i = 0; i < 3000; i++) {
		switch (sigsetjmp(point, 1)) {
		case SIGSEGV:
			faults++;
			continue;
		case SIGUSR1:
			raised++;
			continue;
		case SIGFPE:
			divided++;
			continue;
		}
		if (i % 3 == 0)
			*(volatile int *)BAD = 1;
		else if (i % 3 == 1)
			raise(SIGUSR1);
		else
			CHECK(hidden(i) / hidden(0) == 1);
	}
	say("faults %d raised %d divided %d", faults, raised, divided);
	sigset_t now;
	CHECK(sigprocmask(0, NULL, &now) == 0);
	say("blocked %d %d", sigismember(&now, SIGSEGV), sigismember(&now, SIGUSR1));
	return 0;
}
