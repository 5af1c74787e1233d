// A process started and waited for.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int64_t start = micro_now();
	for (long i = 0; i < count; i++) {
		pid_t child = fork();
		if (child == 0) {
			execl("/bin/true", "true", NULL);
			_exit(127);
		}
		int status;
		micro_require(waitpid(child, &status, 0) == child && status == 0, "waitpid");
	}
	micro_report(start);
	return 0;
}
