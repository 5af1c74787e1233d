// What programs that are attached to while they run have in common: they go on until
// they are told to stop, say "step N" as they do, and "bad: ..." if something is wrong.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : bad(#what, __LINE__))

static inline void bad(const char *what, int line)
{
	printf("bad: %s (line %d, errno %d)\n", what, line, errno);
	fflush(stdout);
	_exit(3);
}

// Whoever runs the tests may attach, even where Yama restricts it to descendants.
static inline void permit(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

static inline void nap(long milliseconds)
{
	struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
	while (nanosleep(&left, &left))
		CHECK(errno == EINTR);
}

static inline void start(void *(*run)(void *), long argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, run, (void *)argument) == 0);
}
