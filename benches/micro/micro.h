// What the microbenchmarks share: each is run as PROGRAM COUNT, times its inner
// loop itself and reports it as "inner_ns N" on stderr.
#ifndef MICRO_H
#define MICRO_H
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline int64_t micro_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline void micro_require(int condition, const char *what)
{
	if (!condition) {
		perror(what);
		exit(1);
	}
}

static inline long micro_count(int argc, char **argv)
{
	micro_require(argc == 2, "usage: PROGRAM COUNT");
	return atol(argv[1]);
}

static inline void micro_report(int64_t start)
{
	fprintf(stderr, "inner_ns %lld\n", (long long)(micro_now() - start));
}
#endif
