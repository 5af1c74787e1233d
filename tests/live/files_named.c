// With --files=snapshot a rollback restores names: files that were removed, renamed and
// replaced since are there again, those that were made are not.
// options: --files=snapshot
// prints: first: 9 names
// prints: again: 9 names
// prints: the same file is at its name
// prints: a link leads where it led
// prints: again: 9 names
// prints: what was made and removed since is not there
#include "live.h"
#include <sys/stat.h>

static int count_names(const char *path)
{
	DIR *dir = opendir(path);
	CHECK(dir);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static int holds(const char *name, const char *text)
{
	char bytes[64] = "";
	int fd = open(name, O_RDONLY);
	if (fd < 0)
		return 0;
	CHECK(read(fd, bytes, sizeof bytes - 1) >= 0);
	close(fd);
	return strcmp(bytes, text) == 0;
}

static void change_names(void)
{
	// Replaced as editors and databases do it.
	int fd = open("work/new", O_WRONLY | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0);
	write_all(fd, "version 2", 9);
	close(fd);
	CHECK(rename("work/new", "work/config") == 0);

	CHECK(unlink("work/removed") == 0 && unlink("work/link") == 0 && rmdir("work/empty") == 0);
	CHECK(rename("work/moved", "work/elsewhere") == 0);
	CHECK(rename("work/dir", "work/directory") == 0);
	CHECK(unlink("work/directory/inside") == 0 && rmdir("work/directory") == 0);
	write_file("work/moved", "another");
	CHECK(mkdir("work/made", 0700) == 0 && symlink("config", "work/made/link") == 0);
	CHECK(link("work/config", "work/made/second") == 0);
	write_file("work/made/file", "made");
	CHECK(unlink("work/written") == 0);
	// One that never was before.
	write_file("work/written", "made and removed");
	CHECK(unlink("work/written") == 0);
	fd = open("work", O_RDONLY | O_DIRECTORY);
	CHECK(unlinkat(fd, "cut", 0) == 0 && mkdirat(fd, "cut", 0700) == 0);
	close(fd);
}

int main(void)
{
	need_session();
	CHECK(mkdir("work", 0700) == 0 && mkdir("work/empty", 0750) == 0 && mkdir("work/dir", 0700) == 0);
	write_file("work/config", "version 1");
	write_file("work/removed", "removed");
	write_file("work/moved", "moved");
	write_file("work/dir/inside", "inside");
	write_file("work/written", "written");
	write_file("work/cut", "cut");
	CHECK(symlink("config", "work/link") == 0);
	CHECK(mkfifo("work/fifo", 0600) == 0);
	int config = open("work/config", O_RDWR), written = open("work/written", O_RDWR);
	CHECK(config >= 0 && written >= 0);

	int id = checkpoint();
	int round = rv_rollbacks(id);
	say("%s: %d names", round == 0 ? "first" : "again", count_names("work"));
	CHECK(holds("work/config", "version 1") && holds("work/removed", "removed"));
	CHECK(holds("work/moved", "moved") && holds("work/dir/inside", "inside"));
	CHECK(holds("work/written", "written") && holds("work/cut", "cut"));
	CHECK(access("work/made", F_OK) == -1 && access("work/elsewhere", F_OK) == -1);
	struct stat status, same;
	CHECK(stat("work/empty", &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & 0777) == 0750);
	if (round == 0) {
		CHECK(pwrite(written, "WRITTEN", 7, 0) == 7);
		change_names();
		back(id);
	}
	if (round == 1) {
		CHECK(stat("work/config", &status) == 0 && fstat(config, &same) == 0);
		CHECK(status.st_ino == same.st_ino && status.st_dev == same.st_dev);
		say("the same file is at its name");
		char target[16] = "";
		CHECK(readlink("work/link", target, sizeof target) == 6 && strcmp(target, "config") == 0);
		say("a link leads where it led");
		change_names();
		int later = checkpoint();
		if (first_time(later)) {
			CHECK(unlink("work/config") == 0 && unlink("work/made/file") == 0);
			back(later);
		}
		CHECK(holds("work/config", "version 2") && holds("work/made/file", "made"));
		back(id);
	}
	say("what was made and removed since is not there");
	return 0;
}
