// Hard and symbolic links, loops, long targets.
// covers: link linkat symlink symlinkat readlink readlinkat
#include "guest.h"

int main(void)
{
	char target[512], longest[400];
	struct stat s;
	write_file("a", "content");
	CHECK(link("a", "b") == 0);
	CHECK(linkat(AT_FDCWD, "a", AT_FDCWD, "c", 0) == 0);
	CHECK(stat("a", &s) == 0 && s.st_nlink == 3);
	CHECK_ERR(link("a", "b"), EEXIST);
	CHECK_ERR(link("absent", "d"), ENOENT);
	CHECK(symlink("a", "s") == 0);
	CHECK(symlinkat("../nowhere", AT_FDCWD, "t") == 0);
	memset(target, '#', sizeof target);
	CHECK(readlink("s", target, sizeof target) == 1 && target[0] == 'a' && target[1] == '#');
	CHECK(readlinkat(AT_FDCWD, "t", target, 4) == 4 && target[4] == '#');
	say("truncated target: %.4s", target);
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	CHECK(symlink(longest, "long") == 0);
	CHECK(readlink("long", target, sizeof target) == sizeof longest - 1);
	CHECK_ERR(readlink("a", target, sizeof target), EINVAL);
	CHECK(symlink("loop", "loop") == 0);
	CHECK_ERR(open("loop", O_RDONLY), ELOOP);
	CHECK_ERR(open("s", O_RDONLY | O_NOFOLLOW), ELOOP);
	int fd = open("s", O_PATH | O_NOFOLLOW);
	CHECK(readlinkat(fd, "", target, sizeof target) == 1);
	CHECK(readlink("/proc/self/exe", target, sizeof target - 1) > 0);
	ssize_t got = readlink("/proc/self/fd/0", target, sizeof target - 1);
	CHECK(got > 0);
	target[got] = 0;
	nondet("stdin is %s", target);
	say("links done");
	return 0;
}
