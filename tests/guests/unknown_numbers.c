// System-call numbers that do not exist.
// covers: getpid
#include "guest.h"

int main(void)
{
	static const long numbers[] = {370, 400, 423, 600, 1000, 5000, 100000, -1, -2, 0x7fffffff};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		say("%ld: %s", numbers[i],
		    syscall(numbers[i], 1, 2, 3, 4, 5, 6) == -1 ? errno_name(errno) : "?");
	// The kernel looks at the lower half of rax only.
	say("upper half ignored: %d", syscall(0x1200000000l + SYS_getpid) == getpid());
	return 0;
}
