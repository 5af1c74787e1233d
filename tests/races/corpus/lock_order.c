// Money goes from one account to the other and back, each under both locks, taken in two orders.
#include "corpus.h"

static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static long balances[2] = { 100, 100 };

static void on_alarm(int number)
{
	static const char text[] = "caught: both wait for each other\n";
	(void)number;
	if (write(2, text, sizeof text - 1) < 0)
		_exit(2);
	_exit(1);
}

static void *transfer(void *argument)
{
	long from = (long)argument, to = 1 - from;
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&locks[from]);
		pthread_mutex_lock(&locks[to]);
		balances[from]--;
		balances[to]++;
		pthread_mutex_unlock(&locks[to]);
		pthread_mutex_unlock(&locks[from]);
	}
	return NULL;
}

int main(void)
{
	signal(SIGALRM, on_alarm);
	alarm(1);
	pthread_t there = start(transfer, (void *)0), back = start(transfer, (void *)1);
	pthread_join(there, NULL);
	pthread_join(back, NULL);
	return balances[0] != 100;
}
