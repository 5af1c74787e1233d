// A process and a child that share memory go back together: what each has for itself, and
// what they share. Then they do the same again together, up to the present, and go on.
// prints: before: the child counts 3
// prints: after: the child counts 5
// prints: went back: the child counts 3
// prints: on from there: the child counts 4
// prints: done again: the child counts 6
// prints: in the present: the child counts 7
#include "live.h"

struct shared {
	atomic_int asked;
	atomic_int answered;
};

// Has the child count, and returns how far it is.
static int ask(struct shared *shared, int what)
{
	post(&shared->asked, what);
	int count = await(&shared->answered);
	atomic_store(&shared->answered, 0);
	return count;
}

static void serve(struct shared *shared)
{
	int own = 0;
	while (await(&shared->asked) == 1) {
		atomic_store(&shared->asked, 0);
		post(&shared->answered, ++own);
	}
	_exit(own);
}

int main(void)
{
	need_session();
	struct shared *shared =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		serve(shared);
	for (int i = 0; i < 2; i++)
		ask(shared, 1);
	int count = ask(shared, 1);
	int id = checkpoint();
	if (first_time(id)) {
		say("before: the child counts %d", count);
		ask(shared, 1);
		say("after: the child counts %d", ask(shared, 1));
		back(id);
	}
	say("went back: the child counts %d", count);
	say("on from there: the child counts %d", ask(shared, 1));
	ask(shared, 1);
	count = ask(shared, 1);
	again(id);
	say("done again: the child counts %d", count);
	say("in the present: the child counts %d", ask(shared, 1));
	forget(id);
	post(&shared->asked, 2);
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	return 0;
}
