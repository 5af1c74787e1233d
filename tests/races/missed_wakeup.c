// A condition waited for after a check without the lock: a signal in between wakes nobody.
#include "race.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static atomic_int has_arrived;

static void prepare(void)
{
	atomic_store(&has_arrived, 0);
}

// The limit is for the finder of the bug: the wait of the real program has none.
static void wait_for_it(void)
{
	int error = 0;
	if (atomic_load(&has_arrived))
		return;
	work(WINDOW_STEPS);
	syscall(SYS_getpid);
	pthread_mutex_lock(&lock);
	do {
		struct timespec limit = after_ns(CLOCK_REALTIME, 1000000000);
		error = pthread_cond_timedwait(&arrived, &lock, &limit);
	} while (error == ETIMEDOUT && !atomic_load(&has_arrived));
	pthread_mutex_unlock(&lock);
	if (error == ETIMEDOUT)
		caught("it arrived, and nobody was woken");
}

static void arrive(void)
{
	work(PREPARATION_STEPS);
	atomic_store(&has_arrived, 1);
	pthread_mutex_lock(&lock);
	pthread_cond_signal(&arrived);
	pthread_mutex_unlock(&lock);
}

static void check(void)
{
}

int main(void)
{
	race(prepare, wait_for_it, arrive, check);
	return 0;
}
