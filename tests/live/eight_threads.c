// Eight threads hand a number round with a mutex and a condition variable. Main takes
// a checkpoint in the middle, and goes back to it three times from later on.
// prints: rolled back 3 times
// prints: 16000 steps, of which each thread made 2000
#include "live.h"

#define THREADS 8
#define STEPS 2000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int total, made[THREADS];

static void *work(void *argument)
{
	int self = (int)(long)argument;
	for (int i = 0; i < STEPS; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		while (total % THREADS != self)
			CHECK(pthread_cond_wait(&moved, &lock) == 0);
		total++;
		made[self]++;
		CHECK(pthread_cond_broadcast(&moved) == 0);
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	return NULL;
}

// Waits until so many steps are made, and returns how many there are.
static int reach(int steps)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	while (total < steps)
		CHECK(pthread_cond_wait(&moved, &lock) == 0);
	int sum = 0, now = total;
	for (int i = 0; i < THREADS; i++)
		sum += made[i];
	CHECK(sum == now);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return now;
}

int main(void)
{
	need_session();
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(work, (void *)i);
	int before = reach(4000);
	int id = checkpoint();
	int count = rv_rollbacks(id);
	CHECK(before >= 4000 && reach(before) >= before);
	reach(12000);
	if (count < 3)
		back(id);
	say("rolled back %d times", count);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	for (int i = 0; i < THREADS; i++)
		CHECK(made[i] == STEPS);
	say("%d steps, of which each thread made %d", total, STEPS);
	return 0;
}
