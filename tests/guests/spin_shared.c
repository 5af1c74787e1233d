// A parent and its child that spin, each until the other has written, without calls.
// covers: fork mmap
#include "threads.h"
#include <sys/mman.h>

struct shared {
	atomic_int turn;
	uint64_t state;
};

static void play(struct shared *shared, int me)
{
	for (int i = 0; i < 10; i++) {
		while (atomic_load(&shared->turn) != me)
			__builtin_ia32_pause();
		shared->state = compute(shared->state + (uint64_t)me, 10);
		atomic_store(&shared->turn, !me);
	}
}

int main(void)
{
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t child = fork();
	if (child == 0) {
		play(shared, 1);
		_exit(0);
	}
	play(shared, 0);
	reap("child", child);
	say("state %llx", (unsigned long long)shared->state);
	return 0;
}
