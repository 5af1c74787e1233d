// Two processes that share memory; the second one sleeps, the first one works.
#include "live.h"

int main(void)
{
	atomic_int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		atomic_store(shared, 1);
		for (;;)
			pause();
	}
	while (atomic_load(shared) == 0)
		sched_yield();
	printf("%d %d\n", getpid(), child);
	fflush(stdout);
	for (;;)
		usleep(10000);
}
