// Dies by a null pointer.
// covers: exit_group
// expect: signal 11
#include "guest.h"

int main(void)
{
	nondet("at %p", (void *)main);
	say("about to fault");
	*(volatile int *)BAD = 1;
	return 0;
}
