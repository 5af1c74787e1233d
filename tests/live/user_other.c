// A process that has another user, another root, or both, than the session: the session's
// folder is out of its reach, and so is its own shadow once it has given up its rights. It is
// replayed and rolled back all the same, its input comes again, and files that it maps since are
// there in the replay.
// needs: root
// prints: another user: input, and a map
// prints: another root: input, and a map
// prints: both: input, and a map
// prints: a child of such a process: input, and a map
#include "live.h"
#include <grp.h>

#define NOBODY 65534

static int file, input[2], lines[2];

static void take_user(void)
{
	CHECK(setgroups(0, NULL) == 0);
	CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0);
	CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

static void take_root(void)
{
	CHECK(chroot("empty") == 0 && chdir("/") == 0);
}

static char first_mapped(int prot, int flags)
{
	char *at = mmap(NULL, PAGE, prot, flags, file, 0);
	CHECK(at != MAP_FAILED);
	char first = at[0];
	CHECK(munmap(at, PAGE) == 0);
	return first;
}

// Goes back twice: the same again, and from there on.
static void go_back(void)
{
	static int calls;
	char text[256];
	int id = checkpoint();
	int count = rv_rollbacks(id);
	CHECK(++calls == 1);
	expect_input(input[0], "input");
	CHECK(first_mapped(PROT_READ, MAP_PRIVATE) == 'k');
	CHECK(first_mapped(PROT_READ | PROT_WRITE, MAP_SHARED) == 'k');
	if (count == 0) {
		CHECK(close(lines[0]) == 0);
		again(id);
		CHECK(rv_check(id, text, sizeof text) >= 0);
		write_all(input[1], ", and more", 10);
		back(id);
	}
	expect_input(input[0], ", and more");
	CHECK(rv_lost(id, text, sizeof text) > 0 && strstr(text, "the 10 bytes"));
	forget(id);
}

static void check(const char *who, int user, int root, int child)
{
	CHECK(pipe(input) == 0 && pipe(lines) == 0);
	// Another one each time: who maps what others have mapped is not alone.
	char name[] = "mapped0";
	name[6] += user + 2 * root + 4 * child;
	file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0 && write(file, "kept", 4) == 4 && ftruncate(file, PAGE) == 0);
	write_all(input[1], "input", 5);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (root)
			take_root();
		if (user)
			take_user();
		pid_t below = child ? fork() : 0;
		if (below == 0) {
			go_back();
			_exit(0);
		}
		int status;
		CHECK(waitpid(below, &status, 0) == below && status == 0);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	say("%s: input, and a map", who);
	CHECK(close(file) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(close(input[i]) == 0 && close(lines[i]) == 0);
}

int main(void)
{
	need_session();
	CHECK(mkdir("empty", 0755) == 0 || errno == EEXIST);
	check("another user", 1, 0, 0);
	check("another root", 0, 1, 0);
	check("both", 1, 1, 0);
	check("a child of such a process", 1, 1, 1);
	return 0;
}
