// A program that reads again and again what it wrote itself: more than the near slots of the block
// cache hold, so that blocks come to the far ones; in a child, too.
// covers: pread64 pwrite64
#include "guest.h"

#define BLOCK 4096
#define BLOCKS 1500

static unsigned char block[BLOCK];

static void fill(unsigned seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
	for (int i = 0; i < BLOCK; i += 8) {
		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		memcpy(block + i, &state, 8);
	}
}

static unsigned long sum_of(int fd, int blocks)
{
	unsigned long sum = 0;
	for (int i = 0; i < blocks; i++) {
		CHECK(pread(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK);
		for (int at = 0; at < BLOCK; at += 64)
			sum = sum * 31 + block[at];
	}
	return sum;
}

int main(void)
{
	char name[] = "/tmp/rereads_XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && unlink(name) == 0);
	for (int round = 1; round <= 4; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			// Some are written anew, and the file grows.
			if (round > 1 && i % 50 != round && i < BLOCKS / 4 * (round - 1))
				continue;
			if (i >= BLOCKS / 4 * round)
				break;
			fill(i + (round > 1 && i % 50 == round ? 10000 * round : 0));
			CHECK(pwrite(fd, block, BLOCK, (off_t)i * BLOCK) == BLOCK);
		}
		for (int again = 0; again < 3; again++)
			say("round %d: %lx", round, sum_of(fd, BLOCKS / 4 * round));
	}
	pid_t child = fork();
	if (child == 0) {
		say("child: %lx", sum_of(fd, BLOCKS));
		fill(77);
		CHECK(pwrite(fd, block, BLOCK, 0) == BLOCK);
		say("child: %lx", sum_of(fd, BLOCKS));
		_exit(0);
	}
	reap("child", child);
	say("parent: %lx", sum_of(fd, BLOCKS));
	return 0;
}
