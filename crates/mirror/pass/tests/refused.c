/* Stores that the pass does not have saved. Those whose address is known are refused where it is in
 * the region; the others are told when this is compiled, and found by the check. */
#include <retrovane-mirror.h>

#include <emmintrin.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) static void hidden(uintptr_t at)
{
	/* The compiler is not told that this number is an address. */
	asm volatile("movq $5, (%0)" : : "r"(at) : "memory");
}

__attribute__((noinline)) static void masked(char *at)
{
	_mm_maskmoveu_si128(_mm_set1_epi8(7), _mm_set1_epi8(-1), at);
}

__attribute__((noinline)) static void saved(char *at)
{
	_xsave(at, 1);
}

__attribute__((noinline)) static void pointed(char *at)
{
	asm volatile("movb $5, (%0)" : : "r"(at) : "memory");
}

int main(int argc, char **argv)
{
	rv_mirror *region;
	struct rv_mirror_options options = {.size = 1 << 20};
	if (argc < 3 || rv_mirror_open(argv[1], &options, &region) < 0)
		return 2;
	char *block = rv_mirror_aligned_alloc(region, 64, 4096);
	int isDuring = !strcmp(argv[2], "during");
	if (isDuring) {
		/* As slow as a disk can be: some seconds. */
		memset(rv_mirror_aligned_alloc(region, 4096, 128 << 10), 1, 128 << 10);
		rv_mirror_set_rate(region, 64 << 10);
	}
	int64_t checkpoint = isDuring ? rv_mirror_checkpoint(region, 1) : 0;
	int isTold = !strcmp(argv[2], "told");
	if (isDuring || isTold || !strcmp(argv[2], "asm") || !strcmp(argv[2], "behind")) {
		/* Stores beside it, which are saved. */
		block[8] = 1;
		memset(block + 64, 2, 500);
		__atomic_store_n((long *)block + 3, 4, __ATOMIC_SEQ_CST);
		hidden((uintptr_t)block);
		if (isTold) {
			rv_mirror_wrote(block, 8);
			block[4] = 1;
		}
		block[9] = 1;
	} else if (!strcmp(argv[2], "maskmov"))
		masked(block);
	else if (!strcmp(argv[2], "xsave"))
		saved(block);
	else
		pointed(block);
	if (isDuring) {
		if (rv_mirror_poll(region, checkpoint) != 0)
			return 3;
		rv_mirror_set_rate(region, 0);
		rv_mirror_wait(region, checkpoint, -1);
		rv_mirror_wait_idle(region);
	}
	/* A checkpoint behind it has what was missed. */
	if (!strcmp(argv[2], "behind")) {
		rv_mirror_wait(region, rv_mirror_checkpoint(region, 0), -1);
		rv_mirror_wait_idle(region);
	}
	uintptr_t at = 0;
	size_t pages = rv_mirror_differences(region, &at, 1);
	fprintf(stderr, "%zu page differs, at %#lx\n", pages, (unsigned long)at);
	rv_mirror_close(region);
	return 0;
}
