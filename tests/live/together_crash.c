// A child that shares memory with its parent crashes: both go back to the checkpoint that
// the parent took, and go on.
// options: --on-crash=rollback:3 --recover=same
// prints: child at 2
// prints: child at 2
// prints: child at 3
// prints: child at 4
// prints: rollbacks: 1
#include "live.h"

// Counts when it is asked, and crashes at 3 the first time.
static void serve(atomic_int *asked, atomic_int *answered)
{
	int own = 0;
	while (await(asked) == 1) {
		atomic_store(asked, 0);
		own++;
		if (own == 3 && rv_rollbacks(0) == 0)
			raise(SIGSEGV);
		post(answered, own);
	}
	_exit(own);
}

int main(void)
{
	need_session();
	atomic_int *shared =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		serve(&shared[0], &shared[1]);
	post(&shared[0], 1);
	CHECK(await(&shared[1]) == 1);
	atomic_store(&shared[1], 0);
	int id = checkpoint();
	for (int i = 0; i < 3; i++) {
		post(&shared[0], 1);
		say("child at %d", await(&shared[1]));
		atomic_store(&shared[1], 0);
	}
	post(&shared[0], 2);
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
	say("rollbacks: %d", rv_rollbacks(id));
	return 0;
}
