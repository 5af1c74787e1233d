/* Two threads add to a counter; one reads it before and writes it after the other's
 * whole work, which is lost. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static long counter;
static int to_fast[2], to_slow[2];

static void *slow(void *unused)
{
	char token = 'x';
	long seen = counter;
	write(to_fast[1], &token, 1);
	read(to_slow[0], &token, 1);
	counter = seen + 1;
	return unused;
}

static void *fast(void *unused)
{
	char token;
	read(to_fast[0], &token, 1);
	for (int i = 0; i < 3; i++)
		counter++;
	write(to_slow[1], &token, 1);
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	if (pipe(to_fast) || pipe(to_slow))
		return 2;
	pthread_create(&threads[0], 0, slow, 0);
	pthread_create(&threads[1], 0, fast, 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	printf("%ld\n", counter);
	return counter == 4 ? 0 : 1;
}
