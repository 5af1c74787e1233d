// What programs have in common whose log becomes longer than it may be: they read what
// cannot be foretold, say "step N" and a sum over all of it now and then, and go on until
// they are told by SIGUSR1 to crash.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : bad(#what, __LINE__))
#define CHUNK 4096

static volatile sig_atomic_t told;

static inline void bad(const char *what, int line)
{
	printf("bad: %s (line %d, errno %d)\n", what, line, errno);
	fflush(stdout);
	_exit(3);
}

static inline void tell(int signal)
{
	(void)signal;
	told = 1;
}

static inline void begin(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	printf("pid %d\n", (int)getpid());
}

// What differs each time.
static inline uint64_t stir(uint64_t sum, int descriptor)
{
	unsigned char bytes[CHUNK];
	for (size_t done = 0; done < sizeof bytes;) {
		ssize_t got = read(descriptor, bytes + done, sizeof bytes - done);
		CHECK(got > 0 || errno == EINTR);
		done += got > 0 ? (size_t)got : 0;
	}
	for (size_t at = 0; at < sizeof bytes; at++)
		sum = sum * 31 + bytes[at];
	return sum;
}

static inline int chance(void)
{
	int descriptor = open("/dev/urandom", O_RDONLY);
	CHECK(descriptor >= 0);
	return descriptor;
}

static inline void nap(void)
{
	struct timespec left = {0, 1000000};
	nanosleep(&left, NULL);
}

static inline void step(const char *who, long number, uint64_t sum)
{
	if (number % 20 == 0)
		printf("%sstep %ld %016lx\n", who, number, (unsigned long)sum);
}
