// abort in a thread ends the process, whatever its other threads do.
// covers: tgkill
// expect: signal 6
#include "threads.h"

static atomic_int here, computing;

static void *block(void *argument)
{
	announce(&here);
	pause();
	return argument;
}

static void *compute_on(void *argument)
{
	volatile uint64_t state = 1;
	post(&computing, 1);
	for (;;)
		state = compute(state, 1000);
	return argument;
}

static void *end(void *argument)
{
	say("about to abort");
	if (argument)
		*(volatile int *)BAD = 1;
	abort();
}

static void all(long by_fault)
{
	start(block, NULL);
	start(compute_on, NULL);
	until_asleep(&here);
	await(&computing);
	join(start(end, (void *)by_fault));
}

int main(void)
{
	pid_t child = fork();
	if (child == 0)
		all(1);
	reap("a fault in a thread", child);
	all(0);
	return 0;
}
