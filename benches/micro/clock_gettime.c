// The clock through libc, which natively does not enter the kernel.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	struct timespec t;
	int64_t start = micro_now();
	for (long i = 0; i < count; i++)
		clock_gettime(CLOCK_MONOTONIC, &t);
	micro_report(start);
	return 0;
}
