// Has an allocator of its own, in which blocks follow one another without anything between.
// options: --on-crash=rollback:9 --recover=pad
// prints: a neighbour is well
// says: so that allocations have 256 bytes more
#include "recover.h"

static char room[64 << 20] __attribute__((aligned(16)));
static size_t used;

__attribute__((noinline)) void *malloc(size_t bytes)
{
	if (bytes > sizeof room - used - 32)
		return NULL;
	size_t *at = (size_t *)(room + used);
	at[1] = bytes;
	used += (bytes + 31) & ~(size_t)15;
	return at + 2;
}

__attribute__((noinline)) void free(void *at)
{
	(void)at;
}

__attribute__((noinline)) void *calloc(size_t count, size_t bytes)
{
	return malloc(count * bytes);
}

__attribute__((noinline)) void *realloc(void *old, size_t bytes)
{
	char *at = malloc(bytes), *from = old;
	for (size_t i = 0; at && from && i < bytes && i < ((size_t *)old)[-1]; i++)
		at[i] = from[i];
	return at;
}

__attribute__((noinline)) void *memalign(size_t alignment, size_t bytes)
{
	char *at = malloc(alignment + bytes);
	return at ? at + (-(uintptr_t)at & (alignment - 1)) : NULL;
}

__attribute__((noinline)) void *aligned_alloc(size_t alignment, size_t bytes)
{
	return memalign(alignment, bytes);
}

__attribute__((noinline)) int posix_memalign(void **at, size_t alignment, size_t bytes)
{
	*at = memalign(alignment, bytes);
	return *at ? 0 : ENOMEM;
}

int main(void)
{
	begin();
	checkpoint();
	char *block = allocate(MALLOC, 32);
	struct named *neighbour = allocate(MALLOC, sizeof *neighbour);
	*neighbour = (struct named){"a neighbour", 0};
	seen = neighbour;
	fill(block, 'A', 100);
	say("%s is well", seen->text);
	survived();
	return 0;
}
