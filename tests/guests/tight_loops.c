// Signals that reach loops of short instructions, which no single jump could replace.
// covers: setitimer rt_sigaction
#include "guest.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;

// Where each of three jumps leads to, and the way out.
static volatile uint64_t places[4];

static void on_tick(int number)
{
	(void)number;
	ticks++;
	places[1] = places[3];
}

static void arm(long microseconds)
{
	struct itimerval t = {{0, 0}, {0, microseconds}};
	ticks = 0;
	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

static uint64_t a, b, n;

// The loop's head lies between short instructions.
static void entered_in_the_middle(void)
{
	__asm__ volatile("jmp 2f\n1: inc %0\n2: add %0,%1\nmov (%2),%%eax\ntest %%eax,%%eax\njz 1b"
			 : "+r"(a), "+r"(b)
			 : "r"(&ticks)
			 : "rax", "memory", "cc");
}

static void counted_by_loop(void)
{
	while (!ticks)
		__asm__ volatile("mov $50,%%ecx\n1: lea (%0,%0,2),%0\nxor %0,%1\nloop 1b"
				 : "+r"(a), "+r"(b)
				 :
				 : "rcx", "cc");
}

// Data before the loop looks like a jump into its first instruction.
static void behind_data_like_a_jump(void)
{
	while (!ticks)
		__asm__ volatile("mov $50,%%ecx\njmp 1f\n.byte 0x74,0x02\n1: lea (%0,%0,2),%0\nxor %0,%1\nloop 1b"
				 : "+r"(a), "+r"(b)
				 :
				 : "rcx", "cc");
}

static void of_single_bytes(void)
{
	while (!ticks)
		__asm__ volatile("lea -128(%%rsp),%%rsp\nmov $60,%%ecx\n"
				 "1: push %0\npop %1\nstc\ncmc\nadc %1,%0\nrol %0\ndec %%ecx\njnz 1b\n"
				 "lea 128(%%rsp),%%rsp"
				 : "+r"(a), "+r"(b)
				 :
				 : "rcx", "cc", "memory");
}

static void calling(void)
{
	__asm__ volatile("lea -128(%%rsp),%%rsp\njmp 3f\n7: lea 1(%0,%1),%0\nret\n8: ret\n"
			 "3: call 7b\nxor %0,%1\ncall 8b\nmov (%2),%%eax\ntest %%eax,%%eax\njz 3b\n"
			 "lea 128(%%rsp),%%rsp"
			 : "+r"(a), "+r"(b)
			 : "r"(&ticks)
			 : "rax", "memory", "cc");
}

static void branching_forward(void)
{
	__asm__ volatile("1: inc %2\ntest $1,%b2\njz 2f\ninc %0\n2: jnp 3f\nnot %1\n3: jrcxz 4f\n"
			 "4: add %0,%1\nmov (%3),%%eax\ntest %%eax,%%eax\njz 1b"
			 : "+r"(a), "+r"(b), "+r"(n)
			 : "r"(&ticks)
			 : "rax", "memory", "cc");
}

// Nothing but jumps to where memory says; the signal changes that.
static void of_indirect_jumps(void)
{
	__asm__ volatile("lea 2f(%%rip),%%rax\nmov %%rax,(%1)\nlea 3f(%%rip),%%rax\nmov %%rax,8(%1)\n"
			 "lea 4f(%%rip),%%rax\nmov %%rax,16(%1)\nlea 5f(%%rip),%%rax\nmov %%rax,24(%1)\n"
			 "mov (%0),%%eax\ntest %%eax,%%eax\njnz 5f\n"
			 "2: notrack %{disp32%} jmp *8(%1)\n3: %{disp32%} jmp *16(%1)\n4: %{disp32%} jmp *(%1)\n5:"
			 :
			 : "r"(&ticks), "r"(places)
			 : "rax", "memory", "cc");
}

// Each of four instructions is jumped to in turn, by an address that no analysis sees.
static void entered_everywhere(void)
{
	__asm__ volatile("lea 5f(%%rip),%%r8\n4: lea (%%r8,%2),%%r9\ninc %2\nand $3,%2\nnotrack jmp *%%r9\n"
			 "5: nop\ncmc\nnop\nstc\nnop\nadc %2,%0\nadd %0,%1\n"
			 "mov (%3),%%eax\ntest %%eax,%%eax\njz 4b"
			 : "+r"(a), "+r"(b), "+r"(n)
			 : "r"(&ticks)
			 : "rax", "r8", "r9", "memory", "cc");
}

int main(void)
{
	static void (*const loops[])(void) = {entered_in_the_middle, counted_by_loop,
					      behind_data_like_a_jump, of_single_bytes, calling,
					      branching_forward, of_indirect_jumps};
	struct sigaction action = {.sa_handler = on_tick};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	for (int round = 0; round < 3; round++)
		for (unsigned i = 0; i < sizeof loops / sizeof *loops; i++) {
			a = 1, b = 2, n = 0;
			arm(7000);
			loops[i]();
			nondet("loop %u: %llx %llx %llx", i, (unsigned long long)a, (unsigned long long)b,
			       (unsigned long long)n);
		}
	// Each pass may trap in replay: a short one.
	a = 1, b = 2, n = 0;
	arm(500);
	entered_everywhere();
	nondet("everywhere: %llx %llx", (unsigned long long)a, (unsigned long long)b);
	say("left every loop");
	return 0;
}
