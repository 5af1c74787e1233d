// Eight threads race for a lock and draw from one generator; a replay draws in the same
// order, goes by the same signals and ends in the present with all threads at work.
// prints: replayed 1
// prints: replayed 2
// prints: replayed 3
// prints: joined 8
#include "live.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t state = 1;
static long drawn;
static atomic_int stop, signals;
static volatile uint64_t racy = 1;

static void note(int number)
{
	(void)number;
	signals++;
}

static void *work(void *argument)
{
	uint64_t own = (uint64_t)(long)argument + 1;
	while (!atomic_load(&stop)) {
		own = compute(own, 200);
		racy = racy * 31 + own;
		CHECK(pthread_mutex_lock(&lock) == 0);
		state = state * 6364136223846793005u + own;
		drawn++;
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	return (void *)(long)(own & 0xffff);
}

static void reach(long count)
{
	for (;;) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		long now = drawn;
		CHECK(pthread_mutex_unlock(&lock) == 0);
		if (now >= count)
			return;
		sched_yield();
	}
}

int main(void)
{
	need_session();
	handle(SIGUSR1, note, SA_RESTART);
	pthread_t threads[8];
	for (long i = 0; i < 8; i++)
		threads[i] = start(work, (void *)i);
	reach(2000);
	int id = checkpoint();
	for (int i = 0; i < 8; i++)
		CHECK(pthread_kill(threads[i], SIGUSR1) == 0);
	long before = drawn;
	reach(before + 5000);
	// Checked against the log: what the racing threads made of it is in these numbers.
	nondet("%llx %llx", (unsigned long long)state, (unsigned long long)racy);
	for (int i = 1; i <= 3; i++) {
		again(id);
		say("replayed %d", i);
	}
	forget(id);
	reach(before + 10000);
	while (atomic_load(&signals) < 8)
		sched_yield();
	atomic_store(&stop, 1);
	for (int i = 0; i < 8; i++)
		join(threads[i]);
	say("joined 8");
	return 0;
}
