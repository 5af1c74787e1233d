// A ring's writer moves its end before the element is there.
#include "corpus.h"

enum { SLOTS = 8, ELEMENTS = 100 };

static atomic_int ring[SLOTS];
static atomic_int begin, end;

static void *write_all(void *unused)
{
	for (int i = 1; i <= ELEMENTS; i++) {
		while (atomic_load(&end) - atomic_load(&begin) == SLOTS)
			sched_yield();
		int at = atomic_fetch_add(&end, 1);
		atomic_store(&ring[at % SLOTS], i);
	}
	return unused;
}

int main(void)
{
	pthread_t writer = start(write_all, NULL);
	for (int i = 1; i <= ELEMENTS; i++) {
		while (atomic_load(&begin) == atomic_load(&end))
			sched_yield();
		int at = atomic_load(&begin);
		if (atomic_load(&ring[at % SLOTS]) != i)
			caught("an element was read before it was written");
		atomic_store(&begin, at + 1);
	}
	pthread_join(writer, NULL);
	return 0;
}
