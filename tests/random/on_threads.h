// Operations among threads: started, joined, cancelled; locks, conditions, futexes.
#include "random.h"
#include <linux/futex.h>
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock_of_readers = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinning;
static sem_t semaphore;
static long guarded;
static __thread long own_long;

struct short_life {
	struct self self;
	long result;
};

OPERATION void *live_shortly(void *argument)
{
	struct short_life *life = argument;
	this_thread = &life->self;
	own_long = below(&life->self, 1000);
	for (long i = below(&life->self, 300); i > 0; i--) {
		pthread_mutex_lock(&mutex);
		fold_value(&life->self, guarded++);
		pthread_mutex_unlock(&mutex);
	}
	if (below(&life->self, 4) == 0)
		pthread_exit((void *)(own_long + 1));
	return (void *)own_long;
}

OPERATION void thread_lives(struct self *me)
{
	if (me->in_child)
		return;
	struct short_life lives[4];
	pthread_t threads[4];
	long count = 1 + below(me, 4), started = 0;
	for (; started < count; started++) {
		lives[started].self = (struct self){.seed = draw(me)};
		if (pthread_create(&threads[started], NULL, live_shortly, &lives[started]) != 0)
			break;
	}
	while (started-- > 0) {
		void *result;
		pthread_join(threads[started], &result);
		fold_value(me, (long)result);
		fold_value(me, (long)lives[started].self.digest);
	}
}

OPERATION void *wait_for_cancelling(void *argument)
{
	struct timespec long_nap = {0, 2000000};
	(void)argument;
	for (;;)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &long_nap, NULL);
	return NULL;
}

OPERATION void thread_cancelled(struct self *me)
{
	pthread_t thread;
	if (me->in_child || pthread_create(&thread, NULL, wait_for_cancelling, NULL) != 0)
		return;
	for (volatile long i = below(me, 30000); i > 0; i--)
		;
	void *result;
	pthread_cancel(thread);
	pthread_join(thread, &result);
	fold_value(me, result == PTHREAD_CANCELED);
}

OPERATION void thread_locks(struct self *me)
{
	if (me->in_child)
		return;
	for (long i = below(me, 200); i > 0; i--) {
		switch (below(me, 5)) {
		case 0:
			pthread_mutex_lock(&mutex);
			fold_value(me, guarded += 3);
			pthread_mutex_unlock(&mutex);
			break;
		case 1:
			if (pthread_mutex_trylock(&mutex) == 0) {
				fold_value(me, guarded);
				pthread_mutex_unlock(&mutex);
			}
			break;
		case 2:
			pthread_rwlock_rdlock(&lock_of_readers);
			fold_value(me, guarded);
			pthread_rwlock_unlock(&lock_of_readers);
			break;
		case 3:
			pthread_rwlock_wrlock(&lock_of_readers);
			shared->bytes[i]++;
			pthread_rwlock_unlock(&lock_of_readers);
			break;
		case 4:
			pthread_spin_lock(&spinning);
			fold_value(me, shared->bytes[9]++);
			pthread_spin_unlock(&spinning);
			break;
		}
	}
}

OPERATION struct timespec deadline(struct self *me, clockid_t clock)
{
	struct timespec when;
	clock_gettime(clock, &when);
	when.tv_nsec += below(me, 400000);
	when.tv_sec += when.tv_nsec / 1000000000;
	when.tv_nsec %= 1000000000;
	return when;
}

OPERATION void thread_conditions(struct self *me)
{
	if (me->in_child)
		return;
	struct timespec when = deadline(me, CLOCK_REALTIME);
	pthread_mutex_lock(&mutex);
	if (below(me, 2))
		fold_value(me, pthread_cond_timedwait(&condition, &mutex, &when));
	else
		pthread_cond_broadcast(&condition);
	fold_value(me, guarded++);
	pthread_mutex_unlock(&mutex);
	if (below(me, 2))
		sem_post(&semaphore);
	else
		fold_value(me, sem_timedwait(&semaphore, &when));
}

// What a child of a process with threads may use as well.
OPERATION void thread_shared_lock(struct self *me)
{
	struct timespec when = deadline(me, CLOCK_REALTIME);
	int error = pthread_mutex_timedlock(&shared->between_processes, &when);
	if (error == EOWNERDEAD)
		pthread_mutex_consistent(&shared->between_processes);
	fold_value(me, error);
	if (error == 0 || error == EOWNERDEAD) {
		fold_value(me, shared->counters[7]++);
		pthread_mutex_unlock(&shared->between_processes);
	}
}

OPERATION void thread_futexes(struct self *me)
{
	struct timespec nap = microseconds(below(me, 300));
	int kind = below(me, 2) ? FUTEX_PRIVATE_FLAG : 0;
	switch (below(me, 4)) {
	case 0: fold_result(me, syscall(SYS_futex, &shared->word, FUTEX_WAIT | kind, shared->word, &nap, NULL, 0)); break;
	case 1: fold_result(me, syscall(SYS_futex, &shared->word, FUTEX_WAKE | kind, 1 + below(me, 3), NULL, NULL, 0)); break;
	case 2: fold_result(me, syscall(SYS_futex, &shared->word, FUTEX_WAIT_BITSET | kind, below(me, 2), &nap, NULL, 5)); break;
	case 3:
		atomic_fetch_add(&shared->word, 1);
		fold_result(me, syscall(SYS_futex, &shared->word, FUTEX_WAKE_BITSET | kind, 9, NULL, NULL, 4));
		break;
	}
}

OPERATION void thread_yields(struct self *me)
{
	for (long i = below(me, 30); i > 0; i--)
		sched_yield();
	fold_value(me, (long)syscall(SYS_gettid));
	// Spins until another thread changes the word, but not for ever.
	int before = shared->word;
	long spins = 0;
	for (long limit = below(me, 100000); shared->word == before && spins < limit; spins++)
		if (below(me, 64) == 0)
			__asm__ volatile("pause");
	fold_value(me, spins);
}
