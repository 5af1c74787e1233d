// The cheapest system call.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int64_t start = micro_now();
	for (long i = 0; i < count; i++)
		syscall(SYS_getppid);
	micro_report(start);
	return 0;
}
