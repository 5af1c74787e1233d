// What the programs of the corpus share. Each is written as its bug is in real programs: nothing
// widens the window, and nothing waits for it.
#ifndef CORPUS_H
#define CORPUS_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The bug has shown: what the finder of it waits for.
static __attribute__((unused)) void caught(const char *what)
{
	fprintf(stderr, "caught: %s\n", what);
	_exit(1);
}

static __attribute__((unused)) void must(int is_so, const char *what)
{
	if (!is_so) {
		perror(what);
		_exit(2);
	}
}

static __attribute__((unused)) pthread_t start(void *(*body)(void *), void *argument)
{
	pthread_t thread;
	must(pthread_create(&thread, NULL, body, argument) == 0, "pthread_create");
	return thread;
}
#endif
