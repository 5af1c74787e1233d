// Signals that reach a computation in memory whose mappings change in between.
// covers: setitimer mmap munmap mremap mprotect brk madvise fork
#include "guest.h"
#include <sys/mman.h>
#include <sys/time.h>

#define PAGE 4096
#define PAGES 64

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

// Changes words all over the memory until a signal comes; the registers are the same in
// each round, and no state comes twice.
static void count_in(volatile uint64_t *memory, size_t bytes, const char *name)
{
	struct itimerval t = {{0, 0}, {0, 4000}};
	size_t words = bytes / sizeof *memory, step = PAGE / sizeof *memory + 1;
	uint64_t sum = 0;
	for (int round = 0; round < 2; round++) {
		ticks = 0;
		CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
		while (!ticks)
			for (size_t i = 0; i < words && !ticks; i += step)
				memory[i] = memory[i] * 6364136223846793005u + 1442695040888963407u;
	}
	for (size_t i = 0; i < words; i++)
		sum = sum * 31 + memory[i];
	nondet("%s: %llx", name, (unsigned long long)sum);
}

static void *map(void *where, size_t bytes, int flags)
{
	void *memory = mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static void deep(int depth)
{
	volatile uint64_t frame[PAGE];
	frame[0] = depth;
	frame[PAGE - 1] = depth;
	if (depth > 0)
		deep(depth - 1);
	else
		count_in(frame, sizeof frame, "grown stack");
}

int main(void)
{
	static uint64_t data[PAGES * 512];
	struct sigaction action = {.sa_handler = on_tick};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	size_t bytes = PAGES * PAGE;
	count_in(data, sizeof data, "data");
	char *one = map(NULL, bytes, 0);
	count_in((void *)one, bytes, "new");
	// Others in place of a part of it.
	map(one + 8 * PAGE, 8 * PAGE, MAP_FIXED);
	CHECK(munmap(one + 32 * PAGE, 8 * PAGE) == 0);
	map(one + 32 * PAGE, 8 * PAGE, MAP_FIXED);
	count_in((void *)one, bytes, "replaced in part");
	CHECK(mprotect(one, 4 * PAGE, PROT_READ) == 0);
	count_in((void *)(one + 4 * PAGE), bytes - 4 * PAGE, "read-only in part");
	CHECK(mprotect(one, bytes, PROT_READ | PROT_WRITE) == 0);
	count_in((void *)one, bytes, "writable again");
	CHECK(madvise(one, bytes / 2, MADV_DONTNEED) == 0);
	count_in((void *)one, bytes, "given back in part");
	char *moved = map(NULL, bytes, 0);
	moved = mremap(moved, bytes, 4 * bytes, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED);
	count_in((void *)moved, 4 * bytes, "moved");
	moved = mremap(moved, 4 * bytes, bytes, 0);
	CHECK(moved != MAP_FAILED);
	count_in((void *)moved, bytes, "shrunk");
	char *end = sbrk(bytes);
	CHECK(end != (void *)-1);
	count_in((void *)(((uintptr_t)end + 7) & ~7ul), bytes - 8, "break");
	CHECK(sbrk(-(intptr_t)bytes) != (void *)-1);
	CHECK(sbrk(bytes) == end);
	count_in((void *)(((uintptr_t)end + 7) & ~7ul), bytes - 8, "break again");
	deep(20);
	pid_t child = fork();
	if (child == 0) {
		count_in((void *)one, bytes, "child");
		_exit(0);
	}
	reap("child", child);
	count_in((void *)one, bytes, "parent");
	char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	count_in((void *)shared, bytes, "shared");
	say("counted everywhere");
	return 0;
}
