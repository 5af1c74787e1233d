// A reader sees the first half of a pair from before a change, and the second from after it.
#include "corpus.h"

static volatile long low, high;

static void *change(void *unused)
{
	for (int i = 1; i <= 100; i++) {
		low = i;
		high = i;
	}
	return unused;
}

int main(void)
{
	pthread_t changer = start(change, NULL);
	for (int i = 0; i < 100; i++) {
		long first = low, second = high;
		if (first < second)
			caught("a pair was torn");
	}
	pthread_join(changer, NULL);
	return 0;
}
