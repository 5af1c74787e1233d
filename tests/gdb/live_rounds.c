/* Workers add to sums of their own, round by round, in step with each other; one of them
 * tells of each round. */
#include <pthread.h>
#include <stdio.h>

#define WORKERS 3
#define ROUNDS 6

static pthread_barrier_t barrier;
static long sums[WORKERS];
static int last_round;

void tell(int round)
{
	last_round = round;
	printf("round %d: %ld %ld %ld\n", round, sums[0], sums[1], sums[2]);
	fflush(stdout);
}

static void *work(void *argument)
{
	long own = (long)argument;
	for (int round = 1; round <= ROUNDS; round++) {
		sums[own] += round * (own + 1);
		pthread_barrier_wait(&barrier);
		if (own == 0)
			tell(round);
		pthread_barrier_wait(&barrier);
	}
	return 0;
}

int main(void)
{
	pthread_t workers[WORKERS];
	pthread_barrier_init(&barrier, 0, WORKERS);
	for (long i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], 0, work, (void *)i);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], 0);
	printf("sum %ld\n", sums[0] + sums[1] + sums[2]);
	return 7;
}
