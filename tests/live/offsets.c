// Offsets of regular files return in a rollback: after reads, seeks, writes and appends,
// also of descriptors that share one.
// prints: read def
// prints: read def
// prints: offsets 3 3 5 0
// prints: the file says helloXXllo
// prints: the log has 3 lines
#include "live.h"

int main(void)
{
	need_session();
	write_file("letters", "abcdefghijklmnopqrstuvwxyz");
	write_file("written", "hello");
	write_file("log", "before\n");
	int fd = open("letters", O_RDONLY), same = dup(fd);
	int out = open("written", O_RDWR), log = open("log", O_WRONLY | O_APPEND);
	CHECK(fd >= 0 && same >= 0 && out >= 0 && log >= 0);
	CHECK(lseek(out, 5, SEEK_SET) == 5);
	expect_input(fd, "abc");

	int id = checkpoint();
	int is_first = first_time(id);
	long offsets[] = {lseek(fd, 0, SEEK_CUR), lseek(same, 0, SEEK_CUR), lseek(out, 0, SEEK_CUR),
			  lseek(log, 0, SEEK_CUR)};
	char bytes[4] = "";
	read_all(same, bytes, 3);
	say("read %s", bytes);
	if (is_first) {
		CHECK(lseek(fd, 20, SEEK_SET) == 20);
		write_all(out, "hello", 5);
		write_all(log, "since\n", 6);
		back(id);
	}
	say("offsets %ld %ld %ld %ld", offsets[0], offsets[1], offsets[2], offsets[3]);

	// Content stays, and so it can be seen where the next write goes.
	write_all(out, "XX", 2);
	char text[64] = "";
	CHECK(pread(out, text, sizeof text, 0) == 10);
	say("the file says %s", text);

	// What is appended goes behind what was appended in the branch that is no more.
	write_all(log, "after\n", 6);
	int again = open("log", O_RDONLY);
	int lines = 0;
	ssize_t length = read(again, text, sizeof text);
	CHECK(length > 0);
	for (ssize_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	say("the log has %d lines", lines);
	return 0;
}
