// Threads generate code and patch it through one mapping of its memory, and run it in another, as
// translators do whose code is nowhere writable, while signals come. The file is larger than what
// is mapped of it.
// covers: memfd_create ftruncate mmap mprotect setitimer rt_sigaction rt_sigreturn
#include "threads.h"
#include "ticks.h"
#include <sys/mman.h>

enum { THREADS = 3, LOOPS = 100, LOOP_BYTES = 128, SEED_AT = 3, ROUNDS = 300000 };
enum { BYTES = THREADS * LOOPS * LOOP_BYTES };
// More than there is memory.
#define FILE_BYTES (1L << 40)

static unsigned char *to_write, *to_run;

static const unsigned char LOOP[] = {
	0x48, 0xc7, 0xc0, 0, 0, 0, 0, // mov $SEED, %rax
	0x48, 0xc7, 0xc1, 0, 0, 0, 0, // mov $ROUNDS, %rcx
	0x48, 0x69, 0xc0, 0x0d, 0x66, 0x19, 0x00, // 0: imul $1664525, %rax, %rax
	0x48, 0x01, 0xc8, // add %rcx, %rax
	0x48, 0xff, 0xc9, // dec %rcx
	0x75, 0xf1, // jnz 0b
	0xc3, // ret
};

static void put(unsigned char *place, int value)
{
	memcpy(place, &value, sizeof value);
}

static void *generate(void *argument)
{
	long number = (long)argument;
	unsigned long sum = 0;
	for (int i = 0; i < LOOPS; i++) {
		size_t place = (number * LOOPS + i) * LOOP_BYTES;
		unsigned long (*loop)(void) = (void *)(to_run + place);
		memcpy(to_write + place, LOOP, sizeof LOOP);
		put(to_write + place + SEED_AT, number * 1000 + i);
		put(to_write + place + SEED_AT + 7, ROUNDS);
		sum = sum * 31 + loop();
		if (i % 3 == 0) {
			put(to_write + place + SEED_AT, i * 7);
			sum = sum * 31 + loop();
		}
	}
	return (void *)sum;
}

int main(void)
{
	int fd = memfd_create("code", 0);
	CHECK(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	to_write = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	to_run = mmap(NULL, BYTES, PROT_NONE, MAP_SHARED, fd, 0);
	CHECK(to_write != MAP_FAILED && to_run != MAP_FAILED);
	CHECK(mprotect(to_run, BYTES, PROT_READ | PROT_EXEC) == 0);
	start_ticks();
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(generate, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *sum;
		CHECK(pthread_join(threads[i], &sum) == 0);
		say("%lx", (unsigned long)sum);
	}
	return 0;
}
