// Signals that come while the program takes a checkpoint, or asks something of it, are handled
// before it goes on, the first time and when it does the same again; so are those that come while
// input is given back. With another thread that wants to run as well.
// prints: the same each time
#include "live.h"
#include <signal.h>
#include <sys/time.h>

static volatile int phase, handled, quit;
static volatile unsigned char seen[1 << 16];

static void on_alarm(int signal)
{
	(void)signal;
	seen[(unsigned)handled++ % sizeof seen] = (unsigned char)phase;
}

static void *calls(void *argument)
{
	while (!quit)
		CHECK(getppid() > 0);
	return argument;
}

int main(void)
{
	need_session();
	int out = open("/dev/null", O_WRONLY | O_CLOEXEC), ends[2];
	CHECK(out >= 0 && pipe(ends) == 0);
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, calls, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (int round = 0; round < 150; round++) {
		char byte = 'a';
		CHECK(write(ends[1], &byte, 1) == 1);
		phase = 1;
		int id = checkpoint();
		phase = 2;
		int before = rv_rollbacks(id);
		phase = 3;
		CHECK(read(ends[0], &byte, 1) == 1 && byte == 'a');
		phase = 4;
		// What the handler saw is checked when it is written again.
		CHECK(write(out, (const void *)seen, sizeof seen) == sizeof seen);
		if (round % 2)
			again(id);
		else if (before == 0)
			back(id);
		phase = 5;
		forget(id);
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	quit = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	say("the same each time");
	return 0;
}
