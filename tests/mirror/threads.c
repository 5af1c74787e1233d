/* threads PATH ROUNDS: threads store into a region while checkpoints are taken without pause. What is printed depends on when
 * that was: in replay it is the same. Twice: the second time begins with what the first one left. */
#include <retrovane-mirror.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, WORDS = 2000, STEP = 1237 };

struct part {
	_Atomic unsigned long done;
	unsigned long words[WORDS];
	char text[64];
};

struct state {
	unsigned long sessions;
	_Atomic unsigned long total;
	struct part parts[THREADS];
};

static rv_mirror *region;
static struct state *state;
static unsigned long rounds;
static atomic_int running;

static void fail(const char *what)
{
	printf("%s: %s\n", what, rv_mirror_error());
	exit(1);
}

static void *work(void *argument)
{
	struct part *part = argument;
	unsigned long end = part->done + rounds;
	for (unsigned long round = part->done + 1; round <= end; round++) {
		struct timespec now;
		for (unsigned index = 0; index < WORDS; index++)
			part->words[index * STEP % WORDS] = round;
		clock_gettime(CLOCK_MONOTONIC, &now);
		snprintf(part->text, sizeof part->text, "%ld.%09ld", (long)now.tv_sec, now.tv_nsec);
		atomic_fetch_add(&state->total, 1);
		atomic_store(&part->done, round);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void session(const char *path)
{
	struct rv_mirror_options options = {.size = 1 << 20};
	if (rv_mirror_open(path, &options, &region) < 0)
		fail("it cannot be opened");
	state = rv_mirror_root(region, "state");
	if (!state) {
		state = rv_mirror_calloc(region, 1, sizeof *state);
		rv_mirror_set_root(region, "state", state);
	}
	printf("generation %lu: session %lu begins with %lu\n", (unsigned long)rv_mirror_recovered(region), state->sessions,
	       atomic_load(&state->total));
	for (unsigned index = 0; index < THREADS; index++)
		if (state->sessions)
			printf("thread %u: %lu rounds, the last one at %s\n", index, state->parts[index].done, state->parts[index].text);
	state->sessions++;
	pthread_t threads[THREADS];
	atomic_store(&running, THREADS);
	for (unsigned index = 0; index < THREADS; index++)
		if (pthread_create(&threads[index], NULL, work, &state->parts[index]))
			fail("a thread");
	for (int64_t last = 0; atomic_load(&running);) {
		int64_t checkpoint = rv_mirror_checkpoint(region, 0);
		unsigned long total = atomic_load(&state->total);
		if (rv_mirror_wait(region, checkpoint, -1) < 0)
			fail("a checkpoint");
		if (checkpoint <= last)
			fail("an old checkpoint");
		last = checkpoint;
		printf("checkpoint %ld at %lu\n", (long)checkpoint, total);
	}
	for (unsigned index = 0; index < THREADS; index++)
		pthread_join(threads[index], NULL);
	if (rv_mirror_wait(region, rv_mirror_checkpoint(region, 0), -1) < 0)
		fail("the last checkpoint");
	rv_mirror_close(region);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	rounds = strtoul(argv[2], NULL, 10);
	session(argv[1]);
	session(argv[1]);
	printf("all done\n");
	return 0;
}
