// The process's first thread has ended long ago.
// expect: signal 6
// build: -pthread
#include "window.h"

static pthread_t first;

static void *work(void *argument)
{
	CHECK(pthread_join(first, NULL) == 0);
	int descriptor = chance();
	uint64_t sum = (uintptr_t)argument;
	for (long number = 0; !told; number++) {
		sum = stir(sum, descriptor);
		step("", number, sum);
		nap();
	}
	printf("end %016lx\n", (unsigned long)sum);
	abort();
}

int main(void)
{
	pthread_t thread;
	begin();
	first = pthread_self();
	CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
	pthread_exit(NULL);
}
