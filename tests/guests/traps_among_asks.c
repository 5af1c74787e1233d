// Threads that trap, and send SIGTRAP to themselves, while others want to run: no trap is lost.
// covers: tgkill
#include "guest.h"
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define ROUNDS 6000

static _Atomic long traps;
static __thread long own;

static void on_trap(int number)
{
	(void)number;
	own++;
	atomic_fetch_add(&traps, 1);
}

static void *run(void *argument)
{
	long index = (long)argument;
	for (long round = 0; round < ROUNDS; round++) {
		if ((round + index) % 3 == 0)
			raise(SIGTRAP);
		else
			__asm__ volatile("int3");
		CHECK(own == round + 1);
	}
	return NULL;
}

int main(void)
{
	CHECK(signal(SIGTRAP, on_trap) != SIG_ERR);
	pthread_t threads[THREADS];
	for (long index = 0; index < THREADS; index++)
		CHECK(pthread_create(&threads[index], NULL, run, (void *)index) == 0);
	for (int index = 0; index < THREADS; index++)
		CHECK(pthread_join(threads[index], NULL) == 0);
	printf("%ld traps\n", atomic_load(&traps));
	return 0;
}
