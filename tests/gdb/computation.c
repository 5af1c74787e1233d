/* A computation of some hundred thousand instructions without any system call. */
#include <sys/syscall.h>

static volatile unsigned x;

__attribute__((noinline)) static void middle(void)
{
	x++;
}

void _start(void)
{
	for (unsigned i = 0; i < 15000; i++)
		x = x * 3 + i;
	middle();
	for (unsigned i = 0; i < 15000; i++)
		x = x * 3 + i;
	__asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(0));
}
