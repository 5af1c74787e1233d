/* goes_back PATH: a live program with a region goes back to a checkpoint of the process while threads store, again and
 * again, and takes checkpoints of the region before and behind it. What is on disk in the end is what the program had in the
 * end, and nothing of the futures that were dropped.
 * goes_back PATH check: what is back. */
#include <retrovane-mirror.h>
#define RETROVANE_INLINE
#include <retrovane.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, PAGES = 100, WORDS = 512, TIMES = 4 };

struct state {
	_Atomic unsigned long total;
	/* Each future stores to pages of its own, and its number to all pages of the last future. */
	unsigned long pages[TIMES + 2][PAGES][WORDS];
	unsigned long last;
};

static rv_mirror *region;
static struct state *state;
static atomic_int stop;

static void fail(const char *what)
{
	printf("%s: %s\n", what, rv_mirror_error());
	exit(1);
}

static void *count(void *argument)
{
	(void)argument;
	while (!atomic_load(&stop))
		atomic_fetch_add(&state->total, 1);
	return NULL;
}

static void durable(void)
{
	if (rv_mirror_wait(region, rv_mirror_checkpoint(region, 0), -1) < 0)
		fail("a checkpoint");
}

static void fill(unsigned group, unsigned long value)
{
	for (unsigned page = 0; page < PAGES; page++)
		for (unsigned word = 0; word < WORDS; word++)
			state->pages[group][page][word] = value;
}

static void check(const char *path)
{
	struct rv_mirror_options options = {0};
	if (rv_mirror_open_verified(path, &options, &region) < 0)
		fail("it cannot be opened");
	state = rv_mirror_root(region, "state");
	if (!state)
		fail("no state");
	for (unsigned group = 0; group < TIMES + 2; group++)
		for (unsigned page = 0; page < PAGES; page++)
			for (unsigned word = 0; word < WORDS; word++) {
				/* Of the futures only the last one has been. */
				unsigned long expected = group == 0 ? 1 : group == TIMES + 1 ? 100 : 0;
				unsigned long found = state->pages[group][page][word];
				if (found != expected) {
					printf("group %u, page %u: %lu instead of %lu\n", group, page, found, expected);
					exit(1);
				}
			}
	if (state->last != TIMES)
		fail("the last future");
	rv_mirror_close(region);
	printf("all right\n");
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		check(argv[1]);
		return 0;
	}
	struct rv_mirror_options options = {.size = 8 << 20};
	if (rv_mirror_open(argv[1], &options, &region) < 0)
		fail("it cannot be opened");
	state = rv_mirror_calloc(region, 1, sizeof *state);
	rv_mirror_set_root(region, "state", state);
	pthread_t threads[THREADS];
	for (unsigned index = 0; index < THREADS; index++)
		if (pthread_create(&threads[index], NULL, count, NULL))
			fail("a thread");
	fill(0, 1);
	durable();
	durable();
	int id = rv_checkpoint();
	if (id < 0) {
		printf("no retrovane\n");
		return 77;
	}
	int time = rv_rollbacks(id);
	printf("%d times back\n", time);
	fflush(stdout);
	if (time < TIMES) {
		/* A future that is dropped: it is on disk, once or twice, or partly. */
		fill(1 + time, 10 + time);
		for (int index = 0; index < time; index++)
			durable();
		if (time % 2)
			rv_mirror_checkpoint(region, 0);
		rv_rollback(id);
		fail("it did not go back");
	}
	fill(TIMES + 1, 100);
	state->last = time;
	durable();
	atomic_store(&stop, 1);
	for (unsigned index = 0; index < THREADS; index++)
		pthread_join(threads[index], NULL);
	durable();
	rv_mirror_close(region);
	printf("done\n");
	return 0;
}
