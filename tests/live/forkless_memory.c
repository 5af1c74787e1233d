// Memory that a fork does not copy, or copies as zeros, is memory of the program like
// other memory: it goes back too. Afterwards it is still not copied by a fork.
// prints: it went back
// prints: a child has: nothing, zeros, text
#include "live.h"

int main(void)
{
	need_session();
	char *absent = map(4 * PAGE), *wiped = map(4 * PAGE), *locked = map(4 * PAGE);
	CHECK(madvise(absent, 4 * PAGE, MADV_DONTFORK) == 0);
	CHECK(madvise(wiped, 4 * PAGE, MADV_WIPEONFORK) == 0);
	memset(absent, 'a', 4 * PAGE);
	memset(wiped, 'w', 4 * PAGE);
	memset(locked, 'l', 4 * PAGE);
	if (mlock(locked, 4 * PAGE) != 0)
		nondet("no mlock: %s", errno_name(errno));
	int id = checkpoint();
	if (first_time(id)) {
		memset(absent, '1', 2 * PAGE);
		memset(wiped, '2', 2 * PAGE);
		memset(locked, '3', 2 * PAGE);
		back(id);
	}
	for (int i = 0; i < 4 * PAGE; i++)
		CHECK(absent[i] == 'a' && wiped[i] == 'w' && locked[i] == 'l');
	forget(id);
	say("it went back");
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		say("a child has: %s, %s, %s", is_mapped(absent) ? "something" : "nothing",
		    wiped[0] == 0 && wiped[3 * PAGE] == 0 ? "zeros" : "text",
		    locked[0] == 'l' ? "text" : "something else");
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
