// Two threads hand a lock over to each other, thousands of times, by futex.
// covers: futex
#include "threads.h"

#define ROUNDS 3000

static atomic_int turn;
static uint64_t state = 1;

static void *play(void *argument)
{
	int me = (int)(long)argument;
	for (int i = 0; i < ROUNDS; i++) {
		while (atomic_load(&turn) != me)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, 1 - me, NULL, NULL, 0);
		state = compute(state + me, 3);
		atomic_store(&turn, 1 - me);
		syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

int main(void)
{
	pthread_t other = start(play, (void *)1);
	play((void *)0);
	join(other);
	say("after %d rounds %llx", ROUNDS, (unsigned long long)state);
	return 0;
}
