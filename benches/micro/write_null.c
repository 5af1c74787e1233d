// One byte to /dev/null.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int fd = open("/dev/null", O_WRONLY);
	int64_t start = micro_now();
	for (long i = 0; i < count; i++)
		micro_require(write(fd, "x", 1) == 1, "write");
	micro_report(start);
	return 0;
}
