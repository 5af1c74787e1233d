// A fault inside of the fault's handler, and a blocked fault, kill.
// covers: rt_sigaction
// expect: signal 11
#include "guest.h"

static void handler(int number)
{
	static const char text[] = "in the handler\n";
	CHECK(number == SIGSEGV);
	CHECK(write(1, text, sizeof text - 1) > 0);
	*(volatile int *)BAD = 2;
}

int main(void)
{
	pid_t child = fork();
	if (child == 0) {
		sigset_t set;
		sigfillset(&set);
		sigprocmask(SIG_BLOCK, &set, NULL);
		*(volatile int *)BAD = 1;
		_exit(0);
	}
	reap("blocked fault", child);
	signal(SIGSEGV, handler);
	*(volatile int *)BAD = 1;
	return 0;
}
