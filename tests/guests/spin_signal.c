// Signals that reach a program while it computes without system calls.
// covers: rt_sigaction rt_sigreturn setitimer kill clock_gettime
#include "guest.h"
#include <setjmp.h>
#include <sys/time.h>

// Every loop is left by a handler alone: how far it came is different each time.
static volatile sig_atomic_t ticks;
static volatile long in_memory;
static sigjmp_buf out;

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

static void jump_out(int number)
{
	siglongjmp(out, number);
}

static void set(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};
	CHECK(sigaction(number, &action, NULL) == 0);
}

// First after so many microseconds; then each time again, if `again`.
static void arm(int which, long microseconds, int again)
{
	struct itimerval t = {{0, again ? microseconds : 0}, {0, microseconds}};
	ticks = 0;
	CHECK(setitimer(which, &t, NULL) == 0);
}

static void on_a_flag(void)
{
	while (!ticks)
		;
	nondet("a flag, ticks %d", (int)ticks);
}

static void counting_in_memory(void)
{
	while (!ticks)
		in_memory++;
	nondet("in memory %ld", in_memory);
}

static void counting_in_a_register(void)
{
	register long count = 0;
	while (!ticks)
		count += 3;
	nondet("in a register %ld", count);
}

static void floating(void)
{
	double value = 1, sum = 0;
	while (!ticks) {
		value *= 1.0000001;
		sum += 1 / value;
	}
	nondet("floating %.17g %.17g", value, sum);
}

static void filling(void)
{
	static unsigned char block[65536];
	long count = 0;
	while (!ticks) {
		memset(block, (int)count, sizeof block);
		count++;
		__asm__ volatile("" : : "r"(block) : "memory");
	}
	nondet("filled %ld times, last with %d", count, block[hidden(4711)]);
}

static void each_loop(void)
{
	static void (*const loops[])(void) = {on_a_flag, counting_in_memory, counting_in_a_register,
					      floating, filling};
	set(SIGALRM, on_tick);
	for (int round = 0; round < 3; round++)
		for (unsigned i = 0; i < sizeof loops / sizeof *loops; i++) {
			arm(ITIMER_REAL, 20000, 0);
			loops[i]();
		}
	say("left every loop");
}

// The state of the computation says after how many steps each signal came.
static void many_ticks(void)
{
	uint64_t state = 1, at[30];
	set(SIGALRM, on_tick);
	arm(ITIMER_REAL, 10000, 1);
	for (int seen = 0; seen < 30;) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		if (ticks > seen) {
			at[seen] = state;
			seen++;
		}
	}
	arm(ITIMER_REAL, 0, 0);
	nondet("states %llx", (unsigned long long)hash_bytes(at, sizeof at));
	say("thirty ticks");
}

static void jumping_out(void)
{
	static volatile int rounds;
	set(SIGALRM, jump_out);
	while (rounds < 10) {
		if (sigsetjmp(out, 1) == 0) {
			arm(ITIMER_REAL, 10000, 0);
			for (;;)
				in_memory += 7;
		}
		rounds++;
		nondet("round %d: %ld", rounds, in_memory);
	}
	say("jumped out of %d loops", rounds);
}

// Time that the processor spends on it, with and without the kernel's share.
static void processor_time(int which, int number, const char *name)
{
	uint64_t hash = 0;
	set(number, on_tick);
	arm(which, 5000, 1);
	while (ticks < 10)
		hash = hash * 31 + 7;
	arm(which, 0, 0);
	nondet("%s: hash %llx", name, (unsigned long long)hash);
	say("%s ticked", name);
}

// Returns when the child has used 2 ms of its processor since its byte: then it computes.
static void until_it_computes(int ready, pid_t child)
{
	char byte;
	clockid_t clock;
	struct timespec used, nap = {0, 1000000};
	CHECK(read(ready, &byte, 1) == 1);
	CHECK(clock_getcpuclockid(child, &clock) == 0);
	CHECK(clock_gettime(clock, &used) == 0);
	int64_t until_ns = used.tv_sec * 1000000000ll + used.tv_nsec + 2000000;
	while (used.tv_sec * 1000000000ll + used.tv_nsec < until_ns) {
		CHECK(nanosleep(&nap, NULL) == 0);
		CHECK(clock_gettime(clock, &used) == 0);
	}
}

static void signalled_by_the_parent(void)
{
	int ready[2];
	CHECK(pipe(ready) == 0);
	set(SIGUSR1, on_tick);
	ticks = 0;
	pid_t child = fork();
	if (child == 0) {
		for (int round = 1; round <= 5; round++) {
			CHECK(write(ready[1], "r", 1) == 1);
			long count = 0;
			while (ticks < round)
				count++;
			nondet("the child counted %ld", count);
		}
		_exit(ticks);
	}
	for (int round = 0; round < 5; round++) {
		until_it_computes(ready[0], child);
		CHECK(kill(child, SIGUSR1) == 0);
	}
	reap("child", child);

	// One that would compute for ever is ended.
	child = fork();
	if (child == 0) {
		CHECK(write(ready[1], "r", 1) == 1);
		for (;;)
			in_memory++;
	}
	until_it_computes(ready[0], child);
	CHECK(kill(child, SIGTERM) == 0);
	reap("endless child", child);
}

int main(void)
{
	each_loop();
	many_ticks();
	jumping_out();
	processor_time(ITIMER_VIRTUAL, SIGVTALRM, "ITIMER_VIRTUAL");
	processor_time(ITIMER_PROF, SIGPROF, "ITIMER_PROF");
	signalled_by_the_parent();
	return 0;
}
