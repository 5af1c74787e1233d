// 64 KB mapped, each page touched, unmapped.
#include "micro.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int64_t start = micro_now();
	for (long i = 0; i < count; i++) {
		char *a = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		micro_require(a != MAP_FAILED, "mmap");
		for (int at = 0; at < 65536; at += 4096)
			a[at] = (char)i;
		munmap(a, 65536);
	}
	micro_report(start);
	return 0;
}
