// Two processes count in memory that they share, without a lock.
#include "corpus.h"

enum { COUNTS = 50 };

int main(void)
{
	volatile long *counted =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(counted != MAP_FAILED, "mmap");
	pid_t child = fork();
	must(child >= 0, "fork");
	for (int i = 0; i < COUNTS; i++)
		++*counted;
	if (child == 0)
		_exit(0);
	must(waitpid(child, NULL, 0) == child, "waitpid");
	if (*counted != 2 * COUNTS)
		caught("counts were lost");
	return 0;
}
