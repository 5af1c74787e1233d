// Threads that compute and read the time, and are stopped meanwhile, by each other and by a timer: no
// place in the code that reads it is one of the program's.
// covers: clock_gettime gettimeofday
#include "guest.h"
#include <pthread.h>
#include <sys/time.h>

#define THREADS 3
#define ROUNDS 60000

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
	(void)number;
	alarms++;
}

static void *reads(void *argument)
{
	unsigned long sum = (unsigned long)argument;
	for (int i = 0; i < ROUNDS; i++) {
		struct timespec time;
		CHECK(clock_gettime(i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &time) == 0);
		sum = sum * 31 + (unsigned long)time.tv_nsec;
		for (int k = 0; k < 100; k++)
			__asm__ volatile("" : "+r"(sum));
	}
	return (void *)sum;
}

int main(void)
{
	struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR && setitimer(ITIMER_REAL, &often, NULL) == 0);
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, reads, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++) {
		void *sum;
		CHECK(pthread_join(threads[i], &sum) == 0);
		nondet("thread %d: %lx", i, (unsigned long)sum);
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	say("alarms: %s", alarms > 0 ? "some" : "none");
	return 0;
}
