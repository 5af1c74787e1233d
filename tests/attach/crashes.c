// One of its threads writes where it may not once it is asked to by a signal.
// crashes
// build: -pthread
#include "attach.h"

static volatile sig_atomic_t asked;
static int *volatile nowhere;

static void handler(int signal)
{
	(void)signal;
	asked = 1;
}

static void *work(void *argument)
{
	for (;;) {
		nap(5);
		if (asked)
			*nowhere = 1;
	}
	return argument;
}

int main(void)
{
	permit();
	CHECK(signal(SIGUSR1, handler) != SIG_ERR);
	start(work, 0);
	for (long step = 1;; step++) {
		printf("step %ld\n", step);
		nap(10);
	}
}
