// What a process gave up since a checkpoint does not come back: a rollback to before that is
// refused, and nothing changes. Doing the same again asks for nothing, and goes on; a checkpoint
// from after that is gone back to; the one from before can be discarded.
// needs: root
// prints: another user: refused, replayed, rolled back from there on
// prints: another root: refused, replayed, rolled back from there on
// prints: other groups: refused, replayed, rolled back from there on
// prints: a user that is as before is rolled back to
#include "live.h"
#include <grp.h>

#define NOBODY 65534

enum change { USER, ROOT, GROUPS };

static void change(enum change what)
{
	gid_t group = NOBODY;
	if (what == USER)
		CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
	else if (what == ROOT)
		CHECK(chroot("below") == 0);
	else
		CHECK(setgroups(1, &group) == 0);
}

static void go_back(enum change what)
{
	static volatile int done;
	int before = checkpoint();
	CHECK(rv_rollbacks(before) == 0);
	change(what);
	done++;
	errno = 0;
	CHECK(rv_rollback(before) == -1 && errno == EACCES && done == 1);
	errno = 0;
	CHECK(rv_check(before, NULL, 0) == -1 && errno == EACCES);
	again(before);
	CHECK(done == 1);
	int after = checkpoint();
	if (rv_rollbacks(after) == 0) {
		done++;
		back(after);
	}
	CHECK(done == 1);
	forget(after);
	forget(before);
	int wait_any = waitpid(-1, NULL, __WALL);
	CHECK(wait_any == -1 && errno == ECHILD);
}

static void check(const char *text, enum change what)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		go_back(what);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	say("%s", text);
}

int main(void)
{
	need_session();
	CHECK(mkdir("below", 0755) == 0 || errno == EEXIST);
	check("another user: refused, replayed, rolled back from there on", USER);
	check("another root: refused, replayed, rolled back from there on", ROOT);
	check("other groups: refused, replayed, rolled back from there on", GROUPS);
	int id = checkpoint();
	if (rv_rollbacks(id) == 0) {
		CHECK(setresuid(-1, NOBODY, -1) == 0 && setresuid(-1, 0, -1) == 0);
		back(id);
	}
	forget(id);
	say("a user that is as before is rolled back to");
	return 0;
}
