// Large copies and fills by single string instructions, interrupted by alarms, in two threads.
// covers: setitimer rt_sigreturn
#include "threads.h"
#include <sys/mman.h>
#include <sys/time.h>

#define BYTES (4 << 20)

static atomic_int ticks;

static void on_tick(int number)
{
	(void)number;
	atomic_fetch_add(&ticks, 1);
}

static void *copy(void *argument)
{
	unsigned char *from = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *to = from + BYTES;
	CHECK(from != MAP_FAILED);
	long rounds = 0;
	do {
		void *source = from, *target = to;
		long left = BYTES / 8, bytes = BYTES;
		uint64_t value = (uint64_t)(rounds + (long)argument) * 0x0101010101u;
		__asm__ volatile("rep stosq" : "+D"(source), "+c"(left) : "a"(value) : "memory");
		source = from;
		__asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(bytes) : : "memory");
		CHECK(left == 0 && bytes == 0 && target == to + BYTES);
		CHECK(memcmp(from, to, BYTES) == 0 && *(uint64_t *)(to + BYTES / 2) == value);
		rounds++;
	} while (atomic_load(&ticks) < 20);
	CHECK(munmap(from, 2 * BYTES) == 0);
	return (void *)rounds;
}

int main(void)
{
	struct itimerval t = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	handle(SIGALRM, on_tick, SA_RESTART);
	pthread_t threads[2] = {start(copy, (void *)1), start(copy, (void *)2)};
	mask(SIG_BLOCK, SIGALRM);
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
	for (int i = 0; i < 2; i++)
		nondet("copied %ld times", join(threads[i]));
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	say("every copy was whole");
	return 0;
}
