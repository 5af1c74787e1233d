// Memory of which each 32nd page is in use, in a program that computes while a timer's
// signals come: what a pause compares is what is there.
// Summing all of it takes longer than the timer's interval.
// not-by: sums
// covers: mmap setitimer rt_sigaction
#include "guest.h"
#include <sys/mman.h>
#include <sys/time.h>

#define BYTES (4UL << 30)
#define STRIDE (32 * 4096UL)
#define SIGNALS 12

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

int main(void)
{
	unsigned char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(memory != MAP_FAILED);
	// Huge pages would fill it.
	CHECK(madvise(memory, BYTES, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
	CHECK(signal(SIGVTALRM, on_signal) != SIG_ERR);
	struct itimerval interval = {{0, 20000}, {0, 20000}};
	CHECK(setitimer(ITIMER_VIRTUAL, &interval, NULL) == 0);
	uint64_t rounds = 0, sum = 0;
	while (signals < SIGNALS) {
		for (size_t at = 0; at < BYTES; at += STRIDE)
			sum = sum * 31 + memory[at]++;
		rounds++;
	}
	CHECK(setitimer(ITIMER_VIRTUAL, &(struct itimerval){0}, NULL) == 0);
	nondet("sum %llx after %llu rounds", (unsigned long long)sum, (unsigned long long)rounds);
	say("%d signals", SIGNALS);
	return 0;
}
