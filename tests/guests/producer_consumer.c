// Producers and consumers of a bounded queue, with two conditions.
// covers: futex
#include "threads.h"

#define SLOTS 8
#define PRODUCERS 3
#define CONSUMERS 2
#define ITEMS 400

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static long slots[SLOTS];
static unsigned put_count, taken_count;

static void put(long item)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	while (put_count - taken_count == SLOTS)
		CHECK(pthread_cond_wait(&not_full, &lock) == 0);
	slots[put_count++ % SLOTS] = item;
	CHECK(pthread_cond_signal(&not_empty) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
}

static long take(void)
{
	CHECK(pthread_mutex_lock(&lock) == 0);
	while (put_count == taken_count)
		CHECK(pthread_cond_wait(&not_empty, &lock) == 0);
	long item = slots[taken_count++ % SLOTS];
	CHECK(pthread_cond_signal(&not_full) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return item;
}

static void *produce(void *argument)
{
	for (long i = 1; i <= ITEMS; i++)
		put((long)argument * 100000 + i);
	return NULL;
}

// The items of one producer come in their order to each consumer.
static void *consume(void *argument)
{
	long sum = 0, last[PRODUCERS + 1] = {0}, item;
	while ((item = take()) != -1) {
		long from = item / 100000;
		CHECK(from <= PRODUCERS && item > last[from]);
		last[from] = item;
		sum += item;
	}
	*(long *)argument = sum;
	return NULL;
}

int main(void)
{
	pthread_t producers[PRODUCERS], consumers[CONSUMERS];
	long sums[CONSUMERS];
	for (int i = 0; i < CONSUMERS; i++)
		consumers[i] = start(consume, &sums[i]);
	for (long i = 0; i < PRODUCERS; i++)
		producers[i] = start(produce, (void *)(i + 1));
	for (int i = 0; i < PRODUCERS; i++)
		join(producers[i]);
	for (int i = 0; i < CONSUMERS; i++)
		put(-1);
	long total = 0;
	for (int i = 0; i < CONSUMERS; i++) {
		join(consumers[i]);
		nondet("consumer %d: %ld", i, sums[i]);
		total += sums[i];
	}
	say("total %ld of %u", total, put_count);
	return 0;
}
