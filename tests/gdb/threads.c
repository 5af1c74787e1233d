/* Threads that come and go, hand a baton around, and keep floating-point and thread-local
 * values while they wait: what a copy of the process has to have of each. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 5, ROUNDS = 24, SHORT_LIVED = 12 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int holder, finished;
static volatile int signals_seen;
static _Thread_local long mine;
static double sum;
/* Pages that a child would not have, or have empty. */
static long *unshared, *wiped;
/* Pages that a child would share. */
static long *common, *in_file;

static void on_signal(int number)
{
	(void)number;
	signals_seen++;
}

__attribute__((noinline)) void turn_of(int me, int round, double value)
{
	mine += me * 1000 + round;
	sum += value;
	*unshared += round;
	*wiped += me;
	*common += 2 * me;
	in_file[1] += round;
}

static void *work(void *argument)
{
	int me = (int)(long)argument;
	double value = me;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 30000; i++)
			value = value * 1.0000001 + 0.5;
		pthread_mutex_lock(&lock);
		while (holder != me)
			pthread_cond_wait(&moved, &lock);
		turn_of(me, round, value);
		if (round % 8 == me)
			raise(SIGUSR1);
		holder = (me + 1) % THREADS;
		pthread_cond_broadcast(&moved);
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	finished++;
	pthread_mutex_unlock(&lock);
	return (void *)mine;
}

static void *short_lived(void *argument)
{
	mine = (long)argument;
	return argument;
}

int main(void)
{
	pthread_t threads[THREADS], other;
	void *result;
	long total = 0;
	FILE *file = tmpfile();
	signal(SIGUSR1, on_signal);
	unshared = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	wiped = unshared + 512;
	if (madvise(unshared, 4096, MADV_DONTFORK) || madvise(wiped, 4096, MADV_WIPEONFORK))
		return 2;
	common = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ftruncate(fileno(file), 4096))
		return 2;
	in_file = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	for (long i = 0; i < SHORT_LIVED; i++) {
		pthread_create(&other, 0, short_lived, (void *)i);
		pthread_join(other, &result);
		total += (long)result;
		usleep(3000);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		total += (long)result;
	}
	printf("%ld %d %.3f %ld %ld %ld %ld\n", total, signals_seen, sum, *unshared,
	       *wiped, *common, in_file[1]);
	return finished == THREADS ? 0 : 1;
}
