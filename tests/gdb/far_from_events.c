/* Hundreds of millions of instructions between two system calls: positions there
 * are not found one step at a time. */
#include <sys/syscall.h>

static void leave(int status)
{
	__asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(status) : "rcx", "r11", "memory");
}

static volatile unsigned rare, often[16];
static volatile unsigned long state = 1;

__attribute__((noinline)) static void step(unsigned round)
{
	state = state * 6364136223846793005ul + round;
	often[(state >> 60) & 15]++;
	if (round % 7000000 == 6999999)
		rare = round;
}

void _start(void)
{
	for (unsigned round = 0; round < 30000000; round++)
		step(round);
	leave(0);
}
