// Mappings that grow, shrink and move.
// covers: mremap
#include "guest.h"
#include <sys/mman.h>

int main(void)
{
	char *a = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 16; i++)
		a[i * 4096] = 'a' + i;
	CHECK(mremap(a, 16 * 4096, 8 * 4096, 0) == a);
	char *b = mremap(a, 8 * 4096, 1024 * 4096, MREMAP_MAYMOVE);
	CHECK(b != MAP_FAILED && b[7 * 4096] == 'h' && b[8 * 4096] == 0);
	nondet("moved to %p", (void *)b);
	b[1023 * 4096] = 'z';
	char *place = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *c = mremap(b + 4 * 4096, 2 * 4096, 2 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED,
			 place + 4096);
	CHECK(c == place + 4096 && c[0] == 'e' && c[4096] == 'f');
	CHECK_ERR(mremap(b + 4 * 4096, 4096, 4096, MREMAP_MAYMOVE), EFAULT);
	char *d = mremap(b, 4 * 4096, 4 * 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	if (d == MAP_FAILED) {
		say("MREMAP_DONTUNMAP: %s", errno_name(errno));
	} else {
		say("MREMAP_DONTUNMAP: old %d new %c", b[0], d[0]);
	}
	CHECK_ERR(mremap(a + 1, 4096, 4096, 0), EINVAL);
	// A blockwise growing vector, as realloc does it.
	size_t size = 4096;
	char *v = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int step = 0; step < 12; step++) {
		memset(v + size / 2, step, size / 2);
		v = mremap(v, size, size * 2, MREMAP_MAYMOVE);
		CHECK(v != MAP_FAILED);
		size *= 2;
	}
	say("hash %llx", (unsigned long long)hash_bytes(v, size));
	char *heap = NULL;
	for (size_t i = 1; i < 40; i++) {
		heap = realloc(heap, i * 100000);
		memset(heap + (i - 1) * 100000, (int)i, 100000);
	}
	say("heap hash %llx", (unsigned long long)hash_bytes(heap, 3900000));
	free(heap);
	return 0;
}
