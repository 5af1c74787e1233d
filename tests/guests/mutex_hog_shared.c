// A process that unlocks a shared mutex and locks it again at once, and makes calls only while it has
// it: other processes are let in nevertheless.
// covers: futex
#include "guest.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define HOGS 3
#define ROUNDS 30

struct shared {
	pthread_mutex_t mutex;
	volatile int stop;
};

static void hog(struct shared *shared)
{
	while (!shared->stop) {
		pthread_mutex_lock(&shared->mutex);
		int fd = open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0666);
		CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
		pthread_mutex_unlock(&shared->mutex);
	}
	_exit(0);
}

int main(void)
{
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	CHECK(pthread_mutex_init(&shared->mutex, &attributes) == 0);
	for (int i = 0; i < HOGS; i++)
		if (fork() == 0)
			hog(shared);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&shared->mutex);
		nondet("round %d", i);
		pthread_mutex_unlock(&shared->mutex);
	}
	shared->stop = 1;
	for (int i = 0; i < HOGS; i++)
		CHECK(wait(NULL) > 0);
	say("let in %d times", ROUNDS);
	return 0;
}
