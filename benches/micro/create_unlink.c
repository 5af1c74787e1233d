// Small files created, written, removed.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	char name[64], block[1024] = {0};
	int64_t start = micro_now();
	for (long i = 0; i < count; i++) {
		snprintf(name, sizeof name, "small-%ld", i % 100);
		int fd = open(name, O_CREAT | O_WRONLY, 0600);
		micro_require(fd >= 0 && write(fd, block, sizeof block) == sizeof block, "write");
		close(fd);
		unlink(name);
	}
	micro_report(start);
	return 0;
}
