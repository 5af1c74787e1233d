// The 32-bit entry from 64-bit code: answered or refused, the program goes on.
// covers: getpid
#include "guest.h"

static void on_fault(int number)
{
	say("went on");
	_exit(number == 0);
}

int main(void)
{
	signal(SIGSEGV, on_fault);
	signal(SIGSYS, on_fault);
	signal(SIGILL, on_fault);
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "0"(20l) : "r8", "r9", "r10", "r11", "memory");
	nondet("getpid by int 0x80: %ld", result);
	say("went on");
	return 0;
}
