// A process that root started and that has another user since: it may not open all of its
// own files in /proc. What the loader wrote into pages that nobody can write to any more is
// there in replay too.
// prints-in-replay
#include "attach.h"

#define NOBODY 65534

static long one, two;
static long *const places[] = {&one, &two};

int main(void)
{
	permit();
	if (geteuid() == 0) {
		CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
		CHECK(prctl(PR_GET_DUMPABLE) != 1);
	}
	for (long step = 1;; step++) {
		++*places[step % 2];
		CHECK(one + two == step && places[0] == &one && places[1] == &two);
		printf("step %ld\n", step);
		nap(10);
	}
}
