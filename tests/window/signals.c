// Signals interrupt it while it computes, reads and waits, on a stack of their own, and
// with a mask that is another in between; it sends itself the one that it dies of.
// expect: signal 11
#include "window.h"

static volatile uint64_t ticks, ticked;
static char stack[65536];

static void tick(int signal)
{
	(void)signal;
	ticks++;
	ticked = ticked * 7 + ticks;
}

int main(void)
{
	begin();
	stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
	CHECK(sigaltstack(&other, NULL) == 0);
	struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval every = {{0, 3000}, {0, 3000}};
	CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
	int descriptor = chance();
	uint64_t sum = 1;
	for (long number = 0; !told; number++) {
		sum = stir(sum, descriptor);
		volatile uint64_t spun = sum;
		for (int round = 0; round < 300000; round++)
			spun = spun * 3 + 1;
		sum ^= spun;
		if (number % 10 == 5) {
			sigset_t alarm, before;
			sigemptyset(&alarm);
			sigaddset(&alarm, SIGALRM);
			CHECK(sigprocmask(SIG_BLOCK, &alarm, &before) == 0);
			sigsuspend(&before);
			CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
		}
		step("", number, sum + ticked);
	}
	printf("end %016lx\n", (unsigned long)sum);
	raise(SIGSEGV);
	return 4;
}
