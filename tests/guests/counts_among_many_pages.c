// A thread that only counts in memory until another one has slept, in one page of many that it wrote
// before, while nothing that its registers point to changes: with --chaos the log does not name what
// counts.
// covers: clone futex clock_nanosleep
// build: -pthread
#include "guest.h"
#include <pthread.h>

enum { PAGES = 400, WORDS = 4096 / sizeof(long), SLEEPS = 4, SLEEP_US = 60000 };

struct place {
	volatile long *volatile counter;
};

static volatile int slept;
static long pages[PAGES][WORDS] __attribute__((aligned(4096)));
static struct place place = {&pages[PAGES / 2][WORDS / 2]};

static void write_many_pages(int by)
{
	for (int page = 0; page < PAGES; page++)
		pages[page][page] += by;
}

static void count_until(int wanted)
{
	while (slept < wanted) {
		++*place.counter;
		// The register that held the counter's address is used for other things, a while.
		__asm__ volatile("xor %%eax, %%eax\n\txor %%edx, %%edx\n\txor %%ecx, %%ecx\n\t"
				 ".rept 60\n\tadd %%edx, %%ecx\n\t.endr"
				 :
				 :
				 : "rax", "rdx", "rcx", "cc", "memory");
	}
}

static void *count(void *unused)
{
	for (int wanted = 1; wanted <= SLEEPS; wanted++) {
		write_many_pages(wanted);
		count_until(wanted);
		nondet("%d, %ld rounds", wanted, *place.counter);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, count, NULL) == 0);
	for (int i = 0; i < SLEEPS; i++) {
		usleep(SLEEP_US);
		slept++;
	}
	CHECK(pthread_join(thread, NULL) == 0);
	long sum = 0;
	for (int page = 0; page < PAGES; page++)
		sum += pages[page][page];
	say("pages written: %ld", sum);
	return 0;
}
