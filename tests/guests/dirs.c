// Directories: made, walked (getdents in small pieces), renamed, removed.
// covers: mkdir mkdirat rmdir getdents getdents64 chdir fchdir getcwd rename renameat renameat2
// covers: unlink unlinkat
#include "guest.h"
#include <dirent.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// Reads with a small buffer, so that several calls are needed.
static void walk(const char *path, long number, size_t name_at, int length_at)
{
	char *names[128], buffer[256];
	int count = 0;
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	for (;;) {
		long got = syscall(number, fd, buffer, sizeof buffer);
		CHECK(got >= 0);
		if (got == 0)
			break;
		for (long at = 0; at < got;) {
			uint16_t length;
			memcpy(&length, buffer + at + length_at, 2);
			names[count++] = strdup(buffer + at + name_at);
			nondet("inode %llu", *(unsigned long long *)(buffer + at));
			at += length;
		}
	}
	qsort(names, count, sizeof *names, by_name);
	printf("%d entries:", count);
	for (int i = 0; i < count; i++)
		printf(" %s", names[i]);
	putchar('\n');
	close(fd);
}

int main(void)
{
	char cwd[4096], name[32];
	CHECK(getcwd(cwd, sizeof cwd) && cwd[0] == '/');
	CHECK(syscall(SYS_getcwd, cwd, sizeof cwd) == (long)strlen(cwd) + 1);
	CHECK_ERR(syscall(SYS_getcwd, cwd, 1), ERANGE);
	nondet("cwd %s", cwd);
	CHECK(mkdir("d", 0755) == 0);
	CHECK_ERR(mkdir("d", 0755), EEXIST);
	CHECK(mkdirat(AT_FDCWD, "d/e", 0700) == 0);
	int top = open(".", O_RDONLY | O_DIRECTORY);
	CHECK(chdir("d/e") == 0);
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof name, "file-%02d", i);
		write_file(name, name);
	}
	CHECK(fchdir(top) == 0);
	walk("d/e", SYS_getdents64, 19, 16);
	walk("d/e", SYS_getdents, 18, 16);
	DIR *dir = opendir("d/e");
	int count = 0;
	while (readdir(dir))
		count++;
	long place = telldir(dir);
	rewinddir(dir);
	CHECK(readdir(dir));
	seekdir(dir, place);
	closedir(dir);
	say("readdir: %d", count);
	CHECK(rename("d/e/file-00", "d/e/renamed") == 0);
	CHECK(renameat(top, "d/e/file-01", top, "d/moved") == 0);
	outcome("RENAME_NOREPLACE", renameat2(top, "d/e/file-02", top, "d/moved", RENAME_NOREPLACE));
	outcome("RENAME_EXCHANGE", renameat2(top, "d/e/file-02", top, "d/moved", RENAME_EXCHANGE));
	CHECK_ERR(rename("d", "d/e/inside"), EINVAL);
	CHECK_ERR(rmdir("d"), ENOTEMPTY);
	CHECK_ERR(unlink("d/absent"), ENOENT);
	CHECK(unlinkat(top, "d/moved", 0) == 0);
	CHECK(chdir("d/e") == 0);
	CHECK(unlink("renamed") == 0);
	for (int i = 2; i < 40; i++) {
		snprintf(name, sizeof name, "file-%02d", i);
		CHECK(unlink(name) == 0);
	}
	CHECK(chdir("../..") == 0);
	CHECK(unlinkat(top, "d/e", AT_REMOVEDIR) == 0);
	CHECK(rmdir("d") == 0);
	CHECK_ERR(chdir("d"), ENOENT);
	CHECK_ERR(fchdir(0), ENOTDIR);
	return 0;
}
