// A thread of its own waits for all signals; the others block them and compute.
// covers: rt_sigtimedwait kill tgkill
#include "threads.h"
#include <semaphore.h>

static atomic_int stop, here;
static sem_t answered;

static void *take_signals(void *argument)
{
	sigset_t *set = argument;
	siginfo_t info;
	long count = 0;
	announce(&here);
	for (;;) {
		int number = sigwaitinfo(set, &info);
		CHECK(number > 0);
		count++;
		if (number == SIGTERM)
			return (void *)count;
		say("took signal %d, value %d, code %d, from this process %d", number,
		    number == SIGUSR1 ? 0 : info.si_value.sival_int, info.si_code, info.si_pid == getpid());
		CHECK(sem_post(&answered) == 0);
	}
}

static void *compute_on(void *argument)
{
	volatile uint64_t state = 1;
	while (!atomic_load(&stop))
		state = compute(state, 1000);
	return argument;
}

int main(void)
{
	sigset_t set;
	siginfo_t info;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN + 1);
	sigaddset(&set, SIGTERM);
	// Before there are threads: all inherit it.
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(sem_init(&answered, 0, 0) == 0);
	pthread_t taker = start(take_signals, &set), busy = start(compute_on, NULL);
	until_asleep(&here);
	for (int i = 0; i < 10; i++) {
		CHECK(kill(getpid(), SIGUSR1) == 0 && sem_wait(&answered) == 0);
		CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}) == 0);
		CHECK(sem_wait(&answered) == 0);
		CHECK(pthread_sigqueue(taker, SIGRTMIN + 1, (union sigval){.sival_int = 100 + i}) == 0);
		CHECK(sem_wait(&answered) == 0);
	}
	CHECK(kill(getpid(), SIGTERM) == 0);
	say("took %ld", join(taker));
	struct timespec none = {0, 2000000};
	CHECK_ERR(sigtimedwait(&set, &info, &none), EAGAIN);
	atomic_store(&stop, 1);
	join(busy);
	return 0;
}
