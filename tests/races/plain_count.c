// Two threads count together without a lock, for a moment only, in plain C: between the load and
// the store there are few instructions, and short ones.
#include "../guests/threads.h"

// Some 50 microseconds.
enum { COUNTS = 20000 };

struct shared {
	volatile int count;
	unsigned numbers[2];
};

static struct shared shared;

static void *count(void *number)
{
	unsigned *own = &shared.numbers[(long)number], drawn = 1;
	for (int i = 0; i < COUNTS; i++) {
		shared.count++;
		drawn = drawn * 1664525u + 1013904223u;
	}
	*own = drawn;
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	for (long i = 0; i < 2; i++)
		threads[i] = start(count, (void *)i);
	for (int i = 0; i < 2; i++)
		join(threads[i]);
	if (shared.count != 2 * COUNTS) {
		fprintf(stderr, "caught: %d of %d\n", shared.count, 2 * COUNTS);
		return 1;
	}
	say("fine");
	return 0;
}
