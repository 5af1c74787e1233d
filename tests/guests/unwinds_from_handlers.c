// Handlers of signals look who called: through the frame of the signal, also where the way back from
// it was taken often before.
// covers: rt_sigaction rt_sigreturn kill
#include "guest.h"
#include <signal.h>
#include <sys/time.h>
#include <unwind.h>

#define SIGNALS 12

int main(void);

static volatile sig_atomic_t handled, saw_main, frames;

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *unused)
{
	(void)unused;
	frames++;
	void *function = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
	int (*of_main)(void) = main;
	void *wanted;
	memcpy(&wanted, &of_main, sizeof wanted);
	if (function == wanted)
		saw_main++;
	return _URC_NO_REASON;
}

static void handler(int number)
{
	(void)number;
	handled++;
	_Unwind_Backtrace(look, NULL);
}

static __attribute__((noinline)) unsigned long compute(int until)
{
	volatile unsigned long count = 0;
	while (handled < until)
		count++;
	return count;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler };
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	for (int i = 0; i < SIGNALS; i++)
		CHECK(kill(getpid(), SIGUSR1) == 0);
	say("%d signals by calls, %d saw main", (int)handled, (int)saw_main);
	struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, never = { 0 };
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	CHECK(compute(2 * SIGNALS) != 0);
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	say("%s saw main", saw_main == handled ? "all" : "not all");
	nondet("%d frames", (int)frames);
	return 0;
}
