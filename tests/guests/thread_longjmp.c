// Handlers left by siglongjmp in several threads at once, from faults and from signals.
// covers: rt_sigprocmask rt_sigreturn
#include "threads.h"
#include <setjmp.h>

static __thread sigjmp_buf point;
static atomic_int waiting;

static void handler(int number)
{
	siglongjmp(point, number);
}

static void *fault_and_raise(void *argument)
{
	volatile int faults = 0, raised = 0, divided = 0;
	(void)argument;
	for (volatile int i = 0; i < 300; i++) {
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
			pthread_kill(pthread_self(), SIGUSR1);
		else
			CHECK(hidden(i) / hidden(0) == 1);
	}
	sigset_t now;
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
	CHECK(!sigismember(&now, SIGSEGV) && !sigismember(&now, SIGUSR1));
	return (void *)(long)(faults * 1000000 + raised * 1000 + divided);
}

// Leaves an endless loop by another thread's signal.
static void *compute_until_signalled(void *argument)
{
	volatile uint64_t state = 1;
	if (sigsetjmp(point, 1) == 0) {
		post(argument, own_tid());
		for (;;)
			state = state * 3 + 1;
	}
	nondet("state %llx", (unsigned long long)state);
	return (void *)7;
}

int main(void)
{
	pthread_t threads[3];
	handle(SIGSEGV, handler, 0);
	handle(SIGUSR1, handler, 0);
	handle(SIGFPE, handler, 0);
	for (int i = 0; i < 3; i++)
		threads[i] = start(fault_and_raise, NULL);
	for (int i = 0; i < 3; i++)
		say("thread %d: %ld", i, join(threads[i]));
	for (int i = 0; i < 5; i++) {
		atomic_store(&waiting, 0);
		threads[0] = start(compute_until_signalled, &waiting);
		await(&waiting);
		CHECK(pthread_kill(threads[0], SIGUSR1) == 0);
		say("left the loop: %ld", join(threads[0]));
	}
	return 0;
}
