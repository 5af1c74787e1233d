// One thread that prints, looks at the clock, and writes to memory of all kinds: what is
// there before the session begins is there afterwards, in replay too.
// prints-in-replay
#include "attach.h"

static const char constant[] = "unchanged";
static long table[1000];
static __thread long own;
static volatile sig_atomic_t handled;

static void handler(int signal)
{
	(void)signal;
	char on_stack;
	stack_t stack;
	CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_flags == SS_ONSTACK);
	CHECK(&on_stack > (char *)stack.ss_sp && &on_stack < (char *)stack.ss_sp + stack.ss_size);
	handled++;
}

int main(void)
{
	permit();
	long page = sysconf(_SC_PAGESIZE);
	char *heap = malloc(1 << 20);
	// Not readable when the session begins, and with content all the same.
	char *closed = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	// A shadow gets what a child does not.
	char *unforked = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(heap && closed != MAP_FAILED && unforked != MAP_FAILED);
	CHECK(madvise(unforked, 4 * page, MADV_DONTFORK) == 0);
	memset(closed, 'c', 4 * page);
	CHECK(mprotect(closed, 4 * page, PROT_NONE) == 0);
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
	CHECK(sigaltstack(&stack, NULL) == 0);
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	CHECK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);

	volatile double sum = 0;
	struct timespec last = {0}, now;
	for (long step = 1;; step++) {
		CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
		CHECK(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec > last.tv_nsec));
		last = now;
		CHECK(time(NULL) > 1000000000);
		own++;
		table[step % 1000]++;
		heap[step * 17 % (1 << 20)] = step;
		unforked[step % (4 * page)] = step;
		sum += 0.5;
		CHECK(own == step && sum == step * 0.5);
		CHECK(unforked[(step - step / 2) % (4 * page)] == (char)(step - step / 2) || step > 4 * page);
		if (step % 5 == 0) {
			CHECK(mprotect(closed, 4 * page, PROT_READ) == 0);
			CHECK(closed[0] == 'c' && closed[4 * page - 1] == 'c');
			CHECK(mprotect(closed, 4 * page, PROT_NONE) == 0);
			CHECK(raise(SIGUSR1) == 0 && handled == step / 5);
			sigset_t mask;
			CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2));
			char *more = malloc(step * 1000);
			CHECK(more);
			memset(more, 1, step * 1000);
			free(more);
		}
		CHECK(strcmp(constant, "unchanged") == 0);
		printf("step %ld\n", step);
		nap(10);
	}
}
