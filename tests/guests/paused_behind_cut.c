// A file is cut below a private mapping that was written to, between two signals that come while the
// program computes: natively the page behind the end is gone at the second.
#include "ticks.h"
#include <sys/mman.h>

enum { ROUNDS = 10, WORDS = 1024, HALF_BYTES = 4096, MUCH_BYTES = 4 << 20 };

// Of much memory, what was written between two signals is found by its protection.
static char much[MUCH_BYTES];

static unsigned long cut_below(int fd, unsigned long value)
{
	CHECK(ftruncate(fd, 2 * HALF_BYTES) == 0);
	unsigned long *words = mmap(NULL, 2 * HALF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(words != MAP_FAILED);
	for (int i = 0; i < WORDS; i++)
		words[i] = value;
	compute_for_ticks(1);
	words[WORDS - 1] = 0;
	CHECK(ftruncate(fd, HALF_BYTES) == 0);
	compute_for_ticks(1);
	CHECK(ftruncate(fd, 2 * HALF_BYTES) == 0);
	compute_for_ticks(1);
	unsigned long sum = 0;
	for (int i = 0; i < WORDS; i++)
		sum += words[i];
	CHECK(munmap(words, 2 * HALF_BYTES) == 0);
	CHECK(ftruncate(fd, 0) == 0);
	return sum;
}

int main(void)
{
	int fds[2] = {memfd_create("cut", 0), open("cut", O_RDWR | O_CREAT | O_TRUNC, 0600)};
	CHECK(fds[0] >= 0 && fds[1] >= 0);
	memset(much, 1, sizeof much);
	start_ticks();
	for (int round = 0; round < ROUNDS; round++)
		say("%lu", cut_below(fds[round % 2], round + much[round]));
	return 0;
}
