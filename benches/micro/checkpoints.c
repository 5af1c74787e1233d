// What checkpoints cost, for memory of several sizes and the part of it that is written
// between two checkpoints: a table of the least of all rounds, which says what the work
// costs, and not what else the machine did. Runs in a live session.
#define _GNU_SOURCE
#define RETROVANE_INLINE
#include "retrovane.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 11

static double now_us(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double least(const double *values)
{
	double least = values[0];
	for (int i = 1; i < ROUNDS; i++)
		least = values[i] < least ? values[i] : least;
	return least;
}

static void touch(volatile char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at]++;
}

// What does not go back: times of the round at hand.
struct times {
	double fork, reap, first, later, began, rollback, discard;
};

static void keep(int clock_file, const struct times *times)
{
	if (pwrite(clock_file, times, sizeof *times, 0) != sizeof *times)
		exit(1);
}

static int checked(int id)
{
	if (id < 0) {
		perror("rv_checkpoint");
		exit(1);
	}
	return id;
}

static void measure_fork(struct times *times, char *memory, size_t written)
{
	int ends[2];
	if (pipe(ends) != 0)
		exit(1);
	double begin = now_us();
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) < 0);
	}
	times->fork = now_us() - begin;
	close(ends[0]);
	touch(memory, written);
	begin = now_us();
	close(ends[1]);
	waitpid(child, NULL, 0);
	times->reap = now_us() - begin;
}

// A first checkpoint, a later one, the way back to that, and its discard.
static struct times measure_round(size_t size, size_t written, int clock_file)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	touch(memory, size);
	struct times times;
	measure_fork(&times, memory, written);
	double begin = now_us();
	int first = checked(rv_checkpoint());
	times.first = now_us() - begin;
	touch(memory, written);
	begin = now_us();
	int later = checked(rv_checkpoint());
	double end = now_us();
	if (rv_rollbacks(later) == 0) {
		times.later = end - begin;
		touch(memory, written);
		times.began = now_us();
		// Memory forgets; files do not.
		keep(clock_file, &times);
		if (rv_rollback(later) != 0)
			exit(1);
	}
	if (pread(clock_file, &times, sizeof times, 0) != sizeof times)
		exit(1);
	times.rollback = end - times.began;
	begin = now_us();
	rv_discard(later);
	times.discard = now_us() - begin;
	rv_discard(first);
	munmap(memory, size);
	// The base of the checkpoints ends, so that the next one is a first one.
	waitpid(-1, NULL, __WALL | WNOHANG);
	return times;
}

static void measure(size_t size, size_t written, int clock_file)
{
	double all[6][ROUNDS], best[6];
	for (int round = 0; round < ROUNDS; round++) {
		struct times times = measure_round(size, written, clock_file);
		double values[6] = {times.fork, times.first, times.later, times.reap, times.discard, times.rollback};
		for (int i = 0; i < 6; i++)
			all[i][round] = values[i];
	}
	for (int i = 0; i < 6; i++)
		best[i] = least(all[i]);
	printf("%7zu  %10zu  %7.0f  %8.0f  %5.2f  %8.0f  %5.2f  %7.0f  %10.0f  %5.2f  %11.0f  %7.2f\n", size >> 20,
	       written >> 10, best[0], best[1], best[1] / best[0], best[2], best[2] / best[0], best[3],
	       best[4], best[4] / best[3], best[5], (best[5] - 1000) / (double)(written / 4096));
	fflush(stdout);
}

int main(void)
{
	int clock_file = open("clock", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (clock_file < 0 || rv_discard(rv_checkpoint()) != 0) {
		perror("a live session is needed");
		return 1;
	}
	printf("size MB  written KB  fork us  first us  ratio  later us  ratio  reap us  discard us  ratio  rollback us  "
	       "us/page beyond 1 ms\n");
	for (size_t size = 4; size <= 400; size *= 10) {
		for (size_t written = 4096; written < size << 20; written *= 32)
			measure(size << 20, written, clock_file);
		measure(size << 20, size << 20, clock_file);
	}
	return 0;
}
