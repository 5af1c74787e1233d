// The last ticket is sold twice: it was there when both looked.
#include "corpus.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int left = 1;

static int get_left(void)
{
	pthread_mutex_lock(&lock);
	int number = left;
	pthread_mutex_unlock(&lock);
	return number;
}

static void *buy(void *unused)
{
	if (get_left() > 0) {
		pthread_mutex_lock(&lock);
		left--;
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int main(void)
{
	pthread_t first = start(buy, NULL), second = start(buy, NULL);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	if (left < 0)
		caught("a ticket was sold twice");
	return 0;
}
