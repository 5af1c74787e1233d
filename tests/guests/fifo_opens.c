// Two threads open the two ends of a FIFO again and again: each waits in open(2) for the
// other one, which can come only when it has the turn.
// covers: open openat mknod mknodat
#include "threads.h"
#include <sys/stat.h>

#define ROUNDS 100

static pthread_barrier_t rounds;

static void *write_numbers(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		int fifo = open("fifo", O_WRONLY);
		CHECK(fifo >= 0 && write(fifo, &i, sizeof i) == sizeof i && close(fifo) == 0);
		pthread_barrier_wait(&rounds);
	}
	return NULL;
}

int main(void)
{
	CHECK(mkfifo("fifo", 0600) == 0);
	CHECK(pthread_barrier_init(&rounds, NULL, 2) == 0);
	pthread_t writer = start(write_numbers, NULL);
	long sum = 0;
	for (int i = 0; i < ROUNDS; i++) {
		int fifo = open("fifo", O_RDONLY), number;
		CHECK(fifo >= 0 && read(fifo, &number, sizeof number) == sizeof number && number == i);
		CHECK(read(fifo, &number, sizeof number) == 0 && close(fifo) == 0);
		sum += number;
		pthread_barrier_wait(&rounds);
	}
	join(writer);
	say("%ld", sum);
	return 0;
}
