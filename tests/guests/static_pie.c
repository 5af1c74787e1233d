// A program linked as static PIE: it relocates itself.
// covers: getpid
// build: -static-pie
// variants: O0 O2
#include "guest.h"

static int data = 5;

int main(void)
{
	say("data %d", data);
	nondet("pid %d code at %p", getpid(), (void *)main);
	return 0;
}
