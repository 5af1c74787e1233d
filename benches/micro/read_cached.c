// 4 KB of a file in the page cache.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	static char block[4096];
	char name[] = "micro-XXXXXX";
	int fd = mkstemp(name);
	micro_require(fd >= 0, "mkstemp");
	unlink(name);
	for (size_t i = 0; i < sizeof block; i++)
		block[i] = "The quick brown fox jumps over the lazy dog.\n"[i % 45];
	micro_require(write(fd, block, sizeof block) == sizeof block, "write");
	int64_t start = micro_now();
	for (long i = 0; i < count; i++)
		micro_require(pread(fd, block, sizeof block, 0) == sizeof block, "pread");
	micro_report(start);
	return 0;
}
