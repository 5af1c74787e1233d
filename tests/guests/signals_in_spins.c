// A signal that comes to a thread in a loop with `pause` finds it in the program's own code, and the
// thread goes on there.
// covers: tgkill rt_sigaction rt_sigreturn
#include "guest.h"
#include <pthread.h>
#include <ucontext.h>

enum { SIGNALS = 20 };

extern char __executable_start, etext;
static volatile int spinning, handled, outside, stop;
static pthread_t spinner;

static void on_signal(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info;
	char *at = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	if (at < &__executable_start || at >= &etext)
		outside++;
	handled++;
}

static void *spins(void *unused)
{
	spinning = 1;
	while (!stop)
		__builtin_ia32_pause();
	return unused;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(pthread_create(&spinner, NULL, spins, NULL) == 0);
	while (!spinning)
		usleep(100);
	for (int i = 0; i < SIGNALS; i++) {
		CHECK(pthread_kill(spinner, SIGUSR1) == 0);
		while (handled <= i)
			usleep(100);
	}
	stop = 1;
	CHECK(pthread_join(spinner, NULL) == 0);
	say("%d signals, %d outside of the program's code", handled, outside);
	return 0;
}
