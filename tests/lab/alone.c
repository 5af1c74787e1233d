// A thread waits in a circle of functions for another one that sleeps for a week: time goes on, once nobody else can.
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_over;
static unsigned table[16];

static unsigned sum(void)
{
	unsigned sum = 0;
	for (int i = 0; i < 16; i++)
		sum = sum * 31 + table[i];
	return sum;
}

static int over(void)
{
	pthread_mutex_lock(&lock);
	int is = is_over;
	pthread_mutex_unlock(&lock);
	return is;
}

static void *sleeps(void *unused)
{
	nanosleep(&(struct timespec){604800, 0}, NULL);
	pthread_mutex_lock(&lock);
	is_over = 1;
	pthread_mutex_unlock(&lock);
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, sleeps, NULL);
	while (!over())
		table[15] = sum() * 0;
	pthread_join(thread, NULL);
	puts("a week later");
	return 0;
}
