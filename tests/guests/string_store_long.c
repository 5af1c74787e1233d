// A single string instruction that takes many milliseconds, while signals of two timers come again and again.
// covers: setitimer madvise
// The sums take longer than the timers.
// not-by: sums
#include "threads.h"
#include <sys/mman.h>
#include <sys/time.h>

#define BYTES (16 << 20)
#define ROUNDS 5

static atomic_int ticks;

static void on_tick(int number)
{
	(void)number;
	atomic_fetch_add(&ticks, 1);
}

int main(void)
{
	struct itimerval t = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	unsigned char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	handle(SIGALRM, on_tick, SA_RESTART);
	handle(SIGPROF, on_tick, SA_RESTART);
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0 && setitimer(ITIMER_PROF, &t, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		void *target = memory;
		long left = BYTES;
		// Each page is made anew, which takes time.
		CHECK(madvise(memory, BYTES, MADV_DONTNEED) == 0);
		__asm__ volatile("rep stosb" : "+D"(target), "+c"(left) : "a"(i) : "memory");
		CHECK(left == 0 && target == memory + BYTES && memory[BYTES - 1] == i);
	}
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0 && setitimer(ITIMER_PROF, &off, NULL) == 0);
	nondet("%d signals", atomic_load(&ticks));
	say("every store was whole");
	return 0;
}
