// One thread, with memory of all kinds, which aborts.
// expect: signal 6
#include "window.h"

static uint64_t table[4096], zeros[65536];

int main(void)
{
	begin();
	int descriptor = chance();
	uint64_t sum = 1;
	uint64_t *heap = calloc(1 << 17, 8);
	uint64_t *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *closed = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(heap && mapped != MAP_FAILED && closed != MAP_FAILED);
	closed[700] = 77;
	CHECK(mprotect(closed, 8192, PROT_NONE) == 0);
	for (long number = 0; !told; number++) {
		sum = stir(sum, descriptor);
		table[sum % 4096] += sum;
		heap[sum >> 47] ^= sum;
		mapped[(sum >> 40) % (1 << 17)] = sum;
		sum += table[(sum >> 9) % 4096] + heap[sum % (1 << 17)] + mapped[(sum >> 20) % (1 << 17)];
		sum += zeros[sum % 65536];
		if (number % 50 == 0) {
			void *more = sbrk(4096);
			CHECK(more != (void *)-1);
			*(uint64_t *)more = sum;
			char *other = mmap(NULL, 4096 * 3, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			CHECK(other != MAP_FAILED && munmap(other, 4096) == 0);
			sum += (uintptr_t)other;
		}
		step("", number, sum);
		nap();
	}
	CHECK(mprotect(closed, 8192, PROT_READ) == 0 && closed[700] == 77);
	printf("end %016lx\n", (unsigned long)sum);
	abort();
}
