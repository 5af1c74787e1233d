// Processes that would share memory are killed before they have begun: what is done together
// does not wait for them.
// prints: went back, and on
#include "live.h"

#define CHILDREN 40

int main(void)
{
	need_session();
	atomic_int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			for (;;)
				pause();
		CHECK(kill(child, SIGKILL) == 0);
		CHECK(waitpid(child, NULL, 0) == child);
	}
	*shared = 1;
	int id = checkpoint();
	if (first_time(id)) {
		*shared = 2;
		back(id);
	}
	CHECK(*shared == 1);
	say("went back, and on");
	forget(id);
	return 0;
}
