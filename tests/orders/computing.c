// Two threads compute all over a large memory, and make no calls: a pause of theirs is dear.
#include "live.h"

#define BYTES (128u << 20)

static void *computes(void *own)
{
	uint64_t *words = own, at = 1;
	for (;;) {
		at = at * 6364136223846793005u + 1442695040888963407u;
		words[(at >> 32) % (BYTES / sizeof *words)] += at;
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, computes, map(BYTES)) == 0);
	printf("%d\n", getpid());
	fflush(stdout);
	computes(map(BYTES));
	return 0;
}
