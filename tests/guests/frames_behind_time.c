// Signals come where threads read the time by an instruction, while others are stopped right beside
// it: the frames say where the program stood, however the instruction was reached.
// covers: rt_sigreturn
#include "threads.h"
#include <sys/time.h>
#include <ucontext.h>
#include <x86intrin.h>

enum { THREADS = 4, ROUNDS = 400 };

static volatile sig_atomic_t strange;
static atomic_int turn_of;

static void on_alarm(int number, siginfo_t *info, void *context)
{
	ucontext_t *frame = context;
	unsigned long place = (unsigned long)frame->uc_mcontext.gregs[REG_RIP];
	(void)number, (void)info;
	// The program's own code, and the libraries', are far from both ends.
	strange += place < 0x10000 || place >> 47 != 0;
}

__attribute__((noinline)) static uint64_t stir(uint64_t sum)
{
	for (int i = 0; i < 20; i++) {
		sum = (sum ^ sum >> 29) * 0xbf58476d1ce4e5b9u;
		sum += __rdtsc() != 0;
	}
	return sum;
}

static void *work(void *argument)
{
	uint64_t sum = (uintptr_t)argument;
	for (int round = 0; round < ROUNDS; round++) {
		sum = stir(sum);
		if (round % 20 == 0) {
			while (atomic_load(&turn_of) % THREADS != (int)(uintptr_t)argument)
				sum += stir(1) & 0;
			atomic_fetch_add(&turn_of, 1);
		}
	}
	return (void *)(sum >> 1);
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_RESTART | SA_SIGINFO};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		say("thread %d: %lx", i, join(threads[i]));
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	say("strange places: %d", (int)strange);
	return 0;
}
