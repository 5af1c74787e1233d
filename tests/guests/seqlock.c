// A sequence lock: readers that spin and try again while a writer changes the data.
// covers: sched_yield
#include "threads.h"

#define WRITES 4000

static atomic_uint sequence;
static _Atomic uint64_t data[4];
static atomic_int done;

static void *write_data(void *argument)
{
	for (uint64_t i = 1; i <= WRITES; i++) {
		atomic_fetch_add(&sequence, 1);
		for (unsigned k = 0; k < COUNT(data); k++)
			atomic_store(&data[k], i * (k + 1));
		atomic_fetch_add(&sequence, 1);
		if (i % 500 == 0)
			sched_yield();
	}
	atomic_store(&done, 1);
	return argument;
}

struct seen {
	long reads, retries;
	uint64_t last;
};

static void *read_data(void *argument)
{
	struct seen *seen = argument;
	int is_last;
	do {
		uint64_t copy[COUNT(data)];
		unsigned before;
		is_last = atomic_load(&done);
		for (;;) {
			before = atomic_load(&sequence);
			for (unsigned k = 0; k < COUNT(data); k++)
				copy[k] = atomic_load(&data[k]);
			if (before % 2 == 0 && before == atomic_load(&sequence))
				break;
			seen->retries++;
		}
		for (unsigned k = 0; k < COUNT(data); k++)
			CHECK(copy[k] == copy[0] * (k + 1));
		CHECK(copy[0] >= seen->last);
		seen->last = copy[0];
		seen->reads++;
	} while (!is_last);
	return NULL;
}

int main(void)
{
	struct seen seen[2] = {{0, 0, 0}, {0, 0, 0}};
	pthread_t readers[2], writer;
	for (int i = 0; i < 2; i++)
		readers[i] = start(read_data, &seen[i]);
	writer = start(write_data, NULL);
	join(writer);
	for (int i = 0; i < 2; i++) {
		join(readers[i]);
		nondet("%ld reads, %ld retries", seen[i].reads, seen[i].retries);
		say("reader %d saw last %llu", i, (unsigned long long)seen[i].last);
	}
	return 0;
}
