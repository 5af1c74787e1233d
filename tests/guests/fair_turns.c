// Three threads compute without a call, all over a large memory, so that their slices are long;
// a fourth one comes back from short sleeps, and all of them get somewhere meanwhile.
// prints: all ran
#include "threads.h"
#include <sys/mman.h>

#define WORDS (512u << 10)
#define THREADS 3

static atomic_int done;
static atomic_ullong rounds[THREADS];

static void *computes(void *own)
{
	size_t bytes = WORDS * sizeof(uint64_t);
	volatile uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(words != MAP_FAILED);
	uint64_t at = 1;
	while (!atomic_load(&done)) {
		for (int i = 0; i < 1000; i++) {
			at = at * 6364136223846793005u + 1442695040888963407u;
			words[(at >> 32) % WORDS] += at;
		}
		atomic_fetch_add((atomic_ullong *)own, 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(computes, &rounds[i]);
	for (int all = 0, sleeps = 0; !all || sleeps < 5; sleeps++) {
		usleep(1000);
		all = 1;
		for (int i = 0; i < THREADS; i++)
			all &= atomic_load(&rounds[i]) != 0;
	}
	atomic_store(&done, 1);
	for (int i = 0; i < THREADS; i++)
		join(threads[i]);
	say("all ran");
	return 0;
}
