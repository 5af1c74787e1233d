// Two threads find that a table is not there yet, and both make it.
#include "corpus.h"

static _Atomic(int *) table;
static atomic_int made;

static int *get(void)
{
	int *found = atomic_load(&table);
	if (!found) {
		found = calloc(16, sizeof *found);
		atomic_fetch_add(&made, 1);
		atomic_store(&table, found);
	}
	return found;
}

static void *enter(void *index)
{
	get()[(long)index] = 1;
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	for (long i = 0; i < 2; i++)
		threads[i] = start(enter, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (atomic_load(&made) != 1)
		caught("two tables were made, and what is in one is lost");
	return 0;
}
