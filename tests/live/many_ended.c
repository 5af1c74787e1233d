// More threads end behind a checkpoint than are kept for a way back: the ways to it and to
// a later one are open all the same, and those that are kept end when nobody can go back to
// them any more.
// prints: went back to the later one
// prints: went back to the first one
// prints: nobody is kept
#include "live.h"

#define MANY 4500

static void *end(void *argument)
{
	return argument;
}

int main(void)
{
	need_session();
	int alone = count_threads();
	int first = checkpoint();
	if (first_time(first)) {
		for (long i = 0; i < MANY; i++)
			CHECK(join(start(end, (void *)i)) == i);
		int later = checkpoint();
		if (first_time(later))
			back(later);
		say("went back to the later one");
		back(first);
	}
	say("went back to the first one");
	int second = checkpoint();
	for (long i = 0; i < 10; i++)
		CHECK(join(start(end, (void *)i)) == i);
	int third = checkpoint();
	forget(first);
	forget(second);
	until_threads(alone, 0);
	say("nobody is kept");
	forget(third);
	return 0;
}
