// What checkpoints cost: a table of medians, for memory of several sizes and the part of
// it that is written between two checkpoints. Runs in a live session.
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

#define ROUNDS 9

static double now_us(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int by_value(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof *values, by_value);
	return values[ROUNDS / 2];
}

static void touch(volatile char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at]++;
}

static void measure(size_t size, size_t written, int clock_file)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	touch(memory, size);
	double forks[ROUNDS], reaps[ROUNDS], takes[ROUNDS], discards[ROUNDS], rollbacks[ROUNDS];
	for (int round = 0; round < ROUNDS; round++) {
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
		forks[round] = now_us() - begin;
		close(ends[0]);
		touch(memory, written);
		begin = now_us();
		close(ends[1]);
		waitpid(child, NULL, 0);
		reaps[round] = now_us() - begin;

		begin = now_us();
		int id = rv_checkpoint();
		double end = now_us();
		if (id < 0) {
			perror("rv_checkpoint");
			exit(1);
		}
		if (rv_rollbacks(id) == 0) {
			takes[round] = end - begin;
			touch(memory, written);
			// Memory forgets; files do not.
			double times[2] = {takes[round], now_us()};
			if (pwrite(clock_file, times, sizeof times, 0) != sizeof times || rv_rollback(id) != 0)
				exit(1);
		}
		double times[2];
		if (pread(clock_file, times, sizeof times, 0) != sizeof times)
			exit(1);
		takes[round] = times[0];
		rollbacks[round] = end - times[1];
		begin = now_us();
		rv_discard(id);
		discards[round] = now_us() - begin;
	}
	double fork_us = median(forks), take_us = median(takes), reap_us = median(reaps);
	double discard_us = median(discards), rollback_us = median(rollbacks);
	printf("%7zu  %11zu  %9.0f  %13.0f  %5.2f  %9.0f  %10.0f  %5.2f  %11.0f  %7.2f\n", size >> 20, written >> 10,
	       fork_us, take_us, take_us / fork_us, reap_us, discard_us, discard_us / reap_us, rollback_us,
	       (rollback_us - 1000) / (double)(written / 4096));
	fflush(stdout);
	munmap(memory, size);
}

int main(void)
{
	int clock_file = open("clock", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (clock_file < 0 || rv_discard(rv_checkpoint()) != 0) {
		perror("a live session is needed");
		return 1;
	}
	printf("size MB   written KB    fork us  checkpoint us  ratio    reap us  discard us  ratio  rollback us  us/page beyond 1 ms\n");
	for (size_t size = 4; size <= 400; size *= 10)
		for (size_t written = 4096; written <= size << 20; written *= 32)
			measure(size << 20, written, clock_file);
	return 0;
}
