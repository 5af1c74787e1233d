// What logging costs: `logging read|write COUNT BYTES` makes as many calls of so many bytes
// each on a file in the page cache, whose content does not compress.
#include "micro.h"

#define FILE_BYTES (4l << 20)

int main(int argc, char **argv)
{
	micro_require(argc == 4, "usage: logging read|write COUNT BYTES");
	int writes = strcmp(argv[1], "write") == 0;
	long count = atol(argv[2]), bytes = atol(argv[3]);
	micro_require(bytes > 0 && bytes <= FILE_BYTES, "BYTES");
	char *data = malloc(FILE_BYTES);
	micro_require(data != NULL, "malloc");
	uint64_t state = 88172645463325252ull;
	for (long i = 0; i < FILE_BYTES; i += sizeof state) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		memcpy(data + i, &state, sizeof state);
	}
	char name[] = "micro-XXXXXX";
	int fd = mkstemp(name);
	micro_require(fd >= 0, "mkstemp");
	unlink(name);
	micro_require(write(fd, data, FILE_BYTES) == FILE_BYTES, "write");
	long places = FILE_BYTES / bytes;
	int64_t start = micro_now();
	for (long i = 0; i < count; i++) {
		long at = i % places * bytes;
		ssize_t done = writes ? pwrite(fd, data, bytes, at) : pread(fd, data, bytes, at);
		micro_require(done == bytes, argv[1]);
	}
	micro_report(start);
	return 0;
}
