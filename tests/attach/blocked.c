// Threads that are blocked when they are sent back, and still when they are sent back to a
// checkpoint that was taken since: they come to the same calls with the same arguments.
// rounds: 4
// build: -pthread
#include "attach.h"
#include <poll.h>

static int silent[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

// They may wake, but nothing ever comes.
static void *wait_for_condition(void *argument)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	for (;;)
		CHECK(pthread_cond_wait(&never, &lock) == 0);
	return argument;
}

static void *read_it(void *argument)
{
	char byte;
	ssize_t got = read(silent[0], &byte, 1);
	CHECK(got == 1 && argument == NULL);
	CHECK(!"something came");
	return NULL;
}

static void *poll_it(void *argument)
{
	struct pollfd wanted = {.fd = silent[0], .events = POLLIN};
	int ready = poll(&wanted, 1, -1);
	CHECK(ready == 1 && argument == NULL);
	CHECK(!"something came");
	return NULL;
}

int main(void)
{
	permit();
	CHECK(pipe(silent) == 0);
	start(read_it, 0);
	start(poll_it, 0);
	start(wait_for_condition, 0);
	for (long step = 1;; step++) {
		nap(20);
		printf("step %ld\n", step);
	}
}
