// Two processes that share memory count in turns, computing, for as long as they live. How far
// they are is in a file.
#include "live.h"

struct shared {
	atomic_int count;
	atomic_int turn;
};

static void count(struct shared *shared, int own)
{
	for (uint64_t seed = 1;; seed++) {
		while (atomic_load(&shared->turn) != own)
			sched_yield();
		CHECK(compute(seed, 100000) != 0);
		atomic_fetch_add(&shared->count, 1);
		atomic_store(&shared->turn, !own);
	}
}

int main(void)
{
	int fd = open("state", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
	struct shared *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child != 0) {
		printf("%d %d\n", getpid(), child);
		fflush(stdout);
	}
	count(shared, child == 0);
}
