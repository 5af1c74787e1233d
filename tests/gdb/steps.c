/* System calls, a signal handler, repeated instructions, vector registers, pushed
 * flags: what single steps have to get right. No libraries, so that it is short. */
#include <stddef.h>
#include <sys/syscall.h>

static long call(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return result;
}

struct action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

void back(void);
__asm__("back: mov $15, %eax\n syscall\n");

static volatile int handled;
static double sum;
static char from[48] = "the quick brown fox jumps over the lazy dog", to[48];

static void on_signal(int number)
{
	handled += number;
}

static unsigned long flags_now(void)
{
	unsigned long flags;
	__asm__ volatile("pushfq\n pop %0" : "=r"(flags));
	return flags;
}

void _start(void)
{
	struct action action = { on_signal, 0x04000000, back, 0 };
	long pid = call(SYS_getpid, 0, 0, 0, 0);
	call(SYS_rt_sigaction, 10, (long)&action, 0, 8);
	for (int round = 0; round < 6; round++) {
		size_t count = sizeof from;
		char *source = from, *target = to;
		__asm__ volatile("rep movsb" : "+c"(count), "+S"(source), "+D"(target) : : "memory");
		for (int i = 0; i < 10; i++)
			sum += i * 0.5;
		if (flags_now() & 0x100)
			call(SYS_exit_group, 3, 0, 0, 0);
		call(SYS_kill, pid, 10, 0, 0);
	}
	call(SYS_write, 1, (long)to, sizeof to - 5, 0);
	call(SYS_exit_group, handled == 60 ? 0 : 1, 0, 0, 0);
}
