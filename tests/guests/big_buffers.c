// Transfers larger than any buffer of a recorder.
// covers: read write pread64 pwrite64 readv writev
#include "guest.h"
#include <sys/uio.h>

#define SIZE (8 << 20)

int main(void)
{
	unsigned char *data = malloc(SIZE), *back = malloc(SIZE);
	uint64_t state = 88172645463325252u;
	for (int i = 0; i < SIZE; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		data[i] = state;
	}
	int fd = open("big", O_RDWR | O_CREAT, 0600);
	CHECK(write(fd, data, SIZE) == SIZE);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(read(fd, back, SIZE) == SIZE);
	CHECK(memcmp(data, back, SIZE) == 0);
	say("hash %llx", (unsigned long long)hash_bytes(back, SIZE));
	CHECK(pwrite(fd, data, SIZE, 12345) == SIZE);
	CHECK(pread(fd, back, SIZE, 777) == SIZE);
	say("hash %llx", (unsigned long long)hash_bytes(back, SIZE));
	struct iovec *vectors = malloc(1000 * sizeof *vectors);
	for (int i = 0; i < 1000; i++)
		vectors[i] = (struct iovec){back + i * 8000, 1 + i * 7};
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	ssize_t got = readv(fd, vectors, 1000);
	say("readv %zd hash %llx", got, (unsigned long long)hash_bytes(back, SIZE));
	say("writev %zd", writev(fd, vectors, 1000));
	unsigned char *random = malloc(1 << 20);
	int source = open("/dev/urandom", O_RDONLY);
	CHECK(read(source, random, 1 << 20) == 1 << 20);
	nondet("random hash %llx", (unsigned long long)hash_bytes(random, 1 << 20));
	return 0;
}
