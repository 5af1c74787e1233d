/* late PATH KILLS: more threads than processors store while checkpoints are taken without pause, and are killed.
 * Each thread stores the number of its round to its words, in an order that is no range, and says then that
 * the round is done. What is back is of one moment: some first words of a round, and the round before in the others,
 * although each thread can be interrupted between the look whether a checkpoint is copied and the store behind it. Of
 * such stores, which are not saved, a thread has one at most: it is the one that comes next.
 *
 * late PATH KILLS slow: each process lives until rounds of its own are durable, and then as long as without. */
#include <retrovane-mirror.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, WORDS = 4096, STEP = 1237 };

struct part {
	_Atomic unsigned long done;
	unsigned long words[WORDS];
};

static rv_mirror *region;

static void fail(const char *what)
{
	printf("%s: %s\n", what, rv_mirror_error());
	fflush(stdout);
	_exit(1);
}

static struct part *open_parts(const char *path)
{
	struct rv_mirror_options options = {.size = 1 << 20};
	if (rv_mirror_open(path, &options, &region) < 0)
		fail("it cannot be opened");
	struct part *parts = rv_mirror_root(region, "parts");
	if (!parts) {
		parts = rv_mirror_calloc(region, THREADS, sizeof *parts);
		rv_mirror_set_root(region, "parts", parts);
	}
	return parts;
}

static void *store(void *argument)
{
	struct part *part = argument;
	for (unsigned long round = atomic_load(&part->done) + 1;; round++) {
		for (unsigned index = 0; index < WORDS; index++) {
			part->words[index * STEP % WORDS] = round;
			/* Plain stores have no order otherwise, for the compiler and for a checkpoint. */
			atomic_signal_fence(memory_order_seq_cst);
		}
		atomic_store(&part->done, round);
	}
	return NULL;
}

static void run(const char *path, int said)
{
	struct part *parts = open_parts(path);
	for (unsigned index = 0; index < THREADS; index++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, store, &parts[index]))
			fail("a thread");
	}
	for (unsigned long before = parts->done, is_said = 0;;) {
		unsigned long done = atomic_load(&parts->done);
		if (rv_mirror_wait(region, rv_mirror_checkpoint(region, 0), -1) < 0)
			fail("a checkpoint");
		if (done > before && !is_said++ && write(said, "", 1) != 1)
			fail("a pipe");
	}
}

static unsigned long check(const char *path)
{
	struct part *parts = open_parts(path);
	if (rv_mirror_wait_verified(region, -1) < 0)
		fail("damaged");
	unsigned long total = 0;
	for (unsigned thread = 0; thread < THREADS; thread++) {
		struct part *part = &parts[thread];
		unsigned long done = part->done, last = done + 1;
		for (unsigned index = 0; index < WORDS; index++) {
			unsigned long found = part->words[index * STEP % WORDS];
			if (found > last || found < done) {
				printf("thread %u, round %lu done: store %u is of round %lu, behind one of %lu\n", thread, done, index, found,
				       last);
				fflush(stdout);
				_exit(1);
			}
			last = found;
		}
		total += done;
	}
	rv_mirror_close(region);
	return total;
}

int main(int argc, char **argv)
{
	unsigned kills = argc > 2 ? atoi(argv[2]) : 0;
	for (unsigned kill_number = 0; kill_number < kills; kill_number++) {
		int ends[2];
		if (pipe(ends))
			return 1;
		pid_t child = fork();
		if (child == 0)
			run(argv[1], ends[1]);
		close(ends[1]);
		char byte;
		if (argc > 3 && read(ends[0], &byte, 1) != 1)
			return 1;
		usleep(80000 + kill_number * 7919 % 100000);
		kill(child, SIGKILL);
		int status = 0;
		waitpid(child, &status, 0);
		close(ends[0]);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			return 1;
		pid_t checker = fork();
		if (checker == 0) {
			check(argv[1]);
			_exit(0);
		}
		waitpid(checker, &status, 0);
		if (status)
			return 1;
	}
	printf("%lu rounds\n", check(argv[1]));
	return 0;
}
