// A program linked at a fixed address.
// covers: getpid
// build: -no-pie
#include "guest.h"

static int data = 5;

int main(void)
{
	CHECK((uintptr_t)&data < 0x1000000);
	say("data at %p", (void *)&data);
	nondet("pid %d", getpid());
	return 0;
}
