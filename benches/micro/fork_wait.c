// fork, an end at once, and waitpid: COUNT times.
#include <sys/wait.h>

#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int64_t start = micro_now();
	for (long i = 0; i < count; i++) {
		pid_t child = fork();
		micro_require(child >= 0, "fork");
		if (child == 0)
			_exit(0);
		micro_require(waitpid(child, NULL, 0) == child, "waitpid");
	}
	micro_report(start);
	return 0;
}
