// Eight threads with mutexes, condition variables, and memory of their own. Some compute
// when the session begins, others wait for each other.
// prints-in-replay
// build: -pthread
#include "attach.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long total, rounds;
static __thread long own;

static void *work(void *argument)
{
	long number = (long)argument;
	volatile double value = number;
	long made = 0;
	for (;;) {
		for (int i = 0; i < 50000; i++)
			value = value * 1.0000001 + 0.1;
		CHECK(value > number);
		CHECK(pthread_mutex_lock(&mutex) == 0);
		total++;
		own++;
		made++;
		CHECK(own == made && total >= own);
		if (number == 0) {
			rounds++;
			CHECK(pthread_cond_broadcast(&turned) == 0);
			printf("step %ld\n", rounds);
		} else if (number % 2 == 1) {
			CHECK(pthread_cond_wait(&turned, &mutex) == 0);
		}
		CHECK(pthread_mutex_unlock(&mutex) == 0);
		nap(number == 0 ? 10 : 2);
	}
	return NULL;
}

int main(void)
{
	permit();
	for (long number = 1; number < 8; number++)
		start(work, number);
	work(0);
}
