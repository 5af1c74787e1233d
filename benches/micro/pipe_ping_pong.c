// One byte forth and back through pipes between two processes.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int to[2], from[2];
	char byte = 0;
	micro_require(pipe(to) == 0 && pipe(from) == 0, "pipe");
	pid_t child = fork();
	if (child == 0) {
		close(to[1]);
		while (read(to[0], &byte, 1) == 1)
			micro_require(write(from[1], &byte, 1) == 1, "write");
		_exit(0);
	}
	int64_t start = micro_now();
	for (long i = 0; i < count; i++) {
		micro_require(write(to[1], &byte, 1) == 1, "write");
		micro_require(read(from[0], &byte, 1) == 1, "read");
	}
	micro_report(start);
	close(to[1]);
	waitpid(child, NULL, 0);
	return 0;
}
