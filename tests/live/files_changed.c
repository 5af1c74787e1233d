// With --files=snapshot a rollback restores files that were changed since: by each call that
// changes bytes or sizes, several times to one checkpoint, and past later ones.
// options: --files=snapshot
// prints: round 0
// prints: everything is as it was
// prints: round 1
// prints: everything is as it was
// prints: the later one: as it was there
// prints: round 2
// prints: everything is as it was
// prints: round 3
// prints: everything is as it was
// prints: what is done now stays
#include "live.h"
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define FILES 10
#define SIZE 200000

static char *bytes_of(int number, size_t size)
{
	char *bytes = malloc(size);
	CHECK(bytes);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (char)(i / 4096 % 3 == 1 ? 0 : number + (int)(i * 7 % 251));
	return bytes;
}

static const char *name_of(int number)
{
	static char name[32];
	snprintf(name, sizeof name, "file%d", number);
	return name;
}

static long size_of(int number)
{
	struct stat status;
	CHECK(stat(name_of(number), &status) == 0);
	return status.st_size;
}

static int is_as_it_was(int number)
{
	char *then = bytes_of(number, SIZE), *now = malloc(SIZE + 1);
	CHECK(now);
	int fd = open(name_of(number), O_RDONLY);
	CHECK(fd >= 0);
	ssize_t length = pread(fd, now, SIZE + 1, 0);
	int same = length == SIZE && memcmp(then, now, SIZE) == 0;
	if (!same)
		say("file%d has %zd bytes, or others", number, length);
	close(fd);
	free(then);
	free(now);
	return same;
}

static void all_are_as_they_were(void)
{
	for (int i = 0; i < FILES; i++)
		CHECK(is_as_it_was(i));
	say("everything is as it was");
}

// `first`: open since before the checkpoint.
static void change_all(int first)
{
	int from = open("source", O_RDONLY);
	CHECK(from >= 0);
	CHECK(pwrite(first, "overwritten", 11, 5000) == 11);
	CHECK(lseek(first, 4090, SEEK_SET) == 4090);
	write_all(first, "across", 6);
	CHECK(pwrite(first, "again", 5, 5003) == 5);

	int fd = open(name_of(1), O_WRONLY | O_APPEND);
	write_all(fd, "appended", 8);
	CHECK(ftruncate(fd, 100) == 0);
	write_all(fd, "appended", 8);
	close(fd);
	CHECK(truncate(name_of(2), 12345) == 0);
	CHECK(truncate(name_of(2), SIZE * 2) == 0);
	close(open(name_of(3), O_WRONLY | O_TRUNC));
	fd = open(name_of(3), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	write_all(fd, "new", 3);
	close(fd);
	close(creat(name_of(4), 0600));

	fd = open(name_of(5), O_RDWR);
	struct iovec parts[] = {{(void *)"one", 3}, {(void *)"two", 3}};
	CHECK(pwritev(fd, parts, 2, 70000) == 6);
	CHECK(writev(fd, parts, 2) == 6);
	CHECK(pwritev2(fd, parts, 2, -1, 0) == 6);
	close(fd);

	fd = open(name_of(6), O_RDWR);
	CHECK(fallocate(fd, 0, SIZE, 10000) == 0);
	// Not every file system can.
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 50000) != 0)
		CHECK(pwrite(fd, "hole", 4, 8192) == 4);
	close(fd);

	fd = open(name_of(7), O_WRONLY);
	CHECK(lseek(fd, 1000, SEEK_SET) == 1000);
	off_t at = 0;
	CHECK(sendfile(fd, from, &at, 9000) == 9000);
	close(fd);

	fd = open(name_of(8), O_RDWR);
	loff_t in = 0, out = 150000;
	if (copy_file_range(from, &in, fd, &out, 9000, 0) < 0)
		CHECK(pwrite(fd, "copied", 6, 150000) == 6);
	close(fd);

	fd = open(name_of(9), O_RDWR);
	char *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(mapped != MAP_FAILED);
	memset(mapped + 10000, 'm', 30000);
	CHECK(munmap(mapped, SIZE) == 0);
	close(fd);
	close(from);
}

int main(void)
{
	need_session();
	for (int i = 0; i < FILES; i++) {
		char *bytes = bytes_of(i, SIZE);
		int fd = open(name_of(i), O_WRONLY | O_CREAT | O_EXCL, 0600);
		CHECK(fd >= 0);
		write_all(fd, bytes, SIZE);
		close(fd);
		free(bytes);
	}
	write_file("source", "0123456789");
	CHECK(truncate("source", 10000) == 0);
	int first = open(name_of(0), O_RDWR);
	CHECK(first >= 0);

	int id = checkpoint();
	int round = rv_rollbacks(id);
	say("round %d", round);
	all_are_as_they_were();
	if (round == 3) {
		forget(id);
		CHECK(truncate(name_of(4), 7) == 0 && size_of(4) == 7);
		say("what is done now stays");
		return 0;
	}
	change_all(first);
	if (round == 1) {
		int later = checkpoint();
		if (first_time(later)) {
			change_all(first);
			CHECK(truncate(name_of(9), 0) == 0 && ftruncate(first, 1) == 0);
			back(later);
		}
		char text[12] = "";
		CHECK(pread(first, text, 11, 5000) == 11 && strcmp(text, "oveagainten") == 0);
		CHECK(size_of(0) == SIZE && size_of(1) == 108 && size_of(3) == 3 && size_of(9) == SIZE);
		say("the later one: as it was there");
		change_all(first);
	}
	if (round == 2) {
		// What one keeps that is discarded is needed by the one before.
		int later = checkpoint();
		change_all(first);
		forget(later);
		CHECK(ftruncate(first, 0) == 0);
	}
	back(id);
}
