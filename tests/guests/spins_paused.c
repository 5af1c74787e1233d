// Threads that wait for each other in loops with `pause`, or with the nops that OpenBLAS has
// in its place: each shape of loop that a jump covers in another way, or in none. How many
// rounds each waits differs from run to run, and is the same in replay.
// covers: clone3
#include "threads.h"
#include <sys/time.h>

#define HANDS 40
#define RESUME_FLAG 0x10000

static atomic_int turn_of;
static volatile sig_atomic_t ticks, resumes;
static long rounds[2];

#define LOOP(name, text)                                                                   \
	static long name(volatile int *word, int value)                                    \
	{                                                                                  \
		long count = 0;                                                            \
		__asm__ volatile(text                                                      \
				 : "+r"(count)                                             \
				 : "r"(word), "r"(value)                                   \
				 : "memory", "cc", "rax", "rcx");                          \
		return count;                                                              \
	}

// The loop begins with it.
LOOP(ahead, "jmp 2f\n.balign 32\n1: pause\nadd $1, %0\n2: mov (%1), %%eax\ncmp %2, %%eax\njne 1b")
// It is in the middle, with long instructions ahead, and with short ones.
LOOP(middle, "1: lea 0x1(%0), %0\nmov (%1), %%eax\ncmp %2, %%eax\nje 2f\nmovabs $7, %%rcx\npause\njmp 1b\n2:")
LOOP(crowded, "1: inc %0\ncmp %2, (%1)\nje 2f\npause\njmp 1b\n2:")
// Two in a round; one that other ways lead to.
LOOP(twice, "1: pause\ninc %0\npause\nmov (%1), %%eax\ncmp %2, %%eax\njne 1b")
LOOP(entered, "test $1, %1\nje 3f\n1: add $1, %0\n3: pause\nmov (%1), %%eax\ncmp %2, %%eax\njne 1b")
// What OpenBLAS does.
LOOP(nops, "jmp 2f\n.balign 32\n1: .byte 0x90,0x90,0x90,0x90,0x90,0x90,0x90,0x90\n"
	   "inc %0\n2: mov (%1), %%eax\ncmp %2, %%eax\njne 1b")
// No nops are for waiting: memory is written.
LOOP(writing, "1: .byte 0x90,0x90,0x90,0x90,0x90,0x90,0x90,0x90\n"
	      "inc %0\npush %0\npop %%rcx\nmov (%1), %%eax\ncmp %2, %%eax\njne 1b")

static long (*const loops[])(volatile int *, int) = {ahead, middle, crowded, twice, entered, nops, writing};

static void *pass_on(void *argument)
{
	int own = (int)(long)argument;
	for (unsigned i = 0; i < COUNT(loops); i++)
		for (int hand = 0; hand < (loops[i] == writing ? 3 : HANDS); hand++) {
			rounds[own] += loops[i]((volatile int *)&turn_of, own);
			if (hand % 8 == 0)
				rounds[own] ^= (long)compute((uint64_t)rounds[own], 100) & 1;
			atomic_store(&turn_of, !own);
		}
	return NULL;
}

static void a_pair(const char *name)
{
	atomic_store(&turn_of, 0);
	pthread_t other = start(pass_on, (void *)1);
	pass_on(NULL);
	join(other);
	nondet("%s: rounds %ld and %ld, ticks %d", name, rounds[0], rounds[1], (int)ticks);
	say("%s: passed on", name);
}

// Where a trap led here, the processor's resume flag is set, which is not the program's.
static void on_tick(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	const ucontext_t *interrupted = context;
	ticks++;
	resumes += (interrupted->uc_mcontext.gregs[REG_EFL] & RESUME_FLAG) != 0;
}

// Passes of a process of one thread do not count, and those of a child by fork do.
static void in_a_child(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int set = 1;
		CHECK(ahead(&set, 1) >= 0 && nops(&set, 1) >= 0);
		a_pair("child");
		_exit(0);
	}
	reap("child", child);
}

static void *waits_for_long(void *word)
{
	nondet("waited for a sleeper %ld rounds", ahead(word, 1));
	return NULL;
}

// Nobody wants the turn while the one that is waited for sleeps.
static void for_a_sleeper(void)
{
	static atomic_int word;
	struct timespec nap = {0, 3000000};
	pthread_t other = start(waits_for_long, &word);
	CHECK(nanosleep(&nap, NULL) == 0);
	atomic_store(&word, 1);
	join(other);
	say("waited for a sleeper");
}

int main(void)
{
	struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	int set = 1;
	CHECK(middle(&set, 1) >= 0 && twice(&set, 1) >= 0);
	a_pair("pair");
	in_a_child();
	for_a_sleeper();
	struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_RESTART | SA_SIGINFO};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	a_pair("pair with a timer");
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	// A page fault sets it too, and a tick may come right there.
	CHECK(resumes <= 2);
	return 0;
}
