// Threads that each reach memory of their own by gs, whose base an instruction sets, while they
// compute, are paused, interrupted by signals, read time, make calls, threads and children.
// covers: arch_prctl
// needs: cpu:fsgsbase
#include "threads.h"
#include <asm/prctl.h>
#include <sys/time.h>
#include <x86intrin.h>

enum { WORDS = 512, THREADS = 4, ROUNDS = 300 };

static volatile sig_atomic_t alarms;
static volatile sig_atomic_t wrong_in_handler;
static atomic_int turn_of;

static void set_base(const void *base)
{
	__asm__ volatile("wrgsbase %0" ::"r"(base) : "memory");
}

static uint64_t base(void)
{
	uint64_t value;
	__asm__ volatile("rdgsbase %0" : "=r"(value));
	return value;
}

static uint64_t load(long index)
{
	uint64_t value;
	__asm__ volatile("movq %%gs:(,%1,8), %0" : "=r"(value) : "r"(index) : "memory");
	return value;
}

static void store(long index, uint64_t value)
{
	__asm__ volatile("movq %0, %%gs:(,%1,8)" ::"r"(value), "r"(index) : "memory");
}

// What gs leads to says of itself where it is.
static int is_whole(void)
{
	return load(0) == base();
}

static void on_alarm(int number)
{
	(void)number;
	alarms++;
	if (!is_whole())
		wrong_in_handler++;
}

static uint64_t stir(uint64_t sum)
{
	for (long i = 1; i < WORDS; i++) {
		uint64_t word = load(i) * 6364136223846793005u + (uint64_t)i;
		store(i, word);
		sum += word >> 33;
	}
	return sum;
}

static void fresh(uint64_t *words, uint64_t seed)
{
	words[0] = (uintptr_t)words;
	for (long i = 1; i < WORDS; i++)
		words[i] = seed + (uint64_t)i;
}

static void *work(void *argument)
{
	uint64_t own[2][WORDS];
	uint64_t seed = (uintptr_t)argument, sum = seed;
	fresh(own[0], seed);
	fresh(own[1], seed * 7);
	CHECK(is_whole());
	for (int round = 0; round < ROUNDS; round++) {
		set_base(own[round % 2]);
		sum = stir(sum);
		CHECK(base() == (uintptr_t)own[round % 2] && is_whole());
		CHECK(syscall(SYS_getppid) > 0 && is_whole());
		if (round % 50 == 0) {
			CHECK(__rdtsc() != 0 && is_whole());
			struct timespec now;
			CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && is_whole());
		}
		if (round % 100 == 0) {
			// Those that spin for their turn are paused.
			while (atomic_load(&turn_of) % THREADS != (int)seed - 1)
				store(1, load(1) + 1);
			atomic_fetch_add(&turn_of, 1);
			store(1, 0);
		}
	}
	return (void *)sum;
}

static void *read_only_base(void *argument)
{
	(void)argument;
	return (void *)base();
}

static void *find_by_call(void *argument)
{
	uint64_t words[WORDS], found = 0;
	(void)argument;
	fresh(words, 3);
	CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, words) == 0 && is_whole());
	CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &found) == 0 && found == (uintptr_t)words);
	set_base(words + 1);
	CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &found) == 0 && found == (uintptr_t)(words + 1));
	CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, -1l) == -1 && errno == EPERM);
	CHECK(base() == (uintptr_t)(words + 1));
	set_base(NULL);
	return NULL;
}

int main(void)
{
	static uint64_t words[WORDS];
	say("base at first: %lx", base());
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	fresh(words, 1);
	set_base(words);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval often = {{0, 3000}, {0, 3000}};
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(work, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		say("thread %d: %lx", i, join(threads[i]));
	while (alarms < 5)
		stir(0);
	struct itimerval never = {{0, 0}, {0, 0}};
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	say("wrong in handlers: %d", (int)wrong_in_handler);
	say("inherited by a thread: %d", join(start(read_only_base, NULL)) == (long)(uintptr_t)words);
	join(start(find_by_call, NULL));
	CHECK(is_whole());
	pid_t child = fork();
	if (child == 0) {
		int right = base() == (uintptr_t)words && is_whole();
		stir(0);
		_exit(right && getppid() > 0 && is_whole() ? 6 : 7);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	say_status("child", status);
	child = vfork();
	if (child == 0)
		_exit(is_whole() ? 8 : 9);
	CHECK(waitpid(child, &status, 0) == child && is_whole());
	say_status("child of vfork", status);
	return 0;
}
