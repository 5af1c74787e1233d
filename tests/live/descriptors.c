// Descriptors opened since a checkpoint are closed by a rollback; regular files closed
// since are open again, under their numbers and at their offsets; numbers that were
// given to something else have their old file.
// prints: opened since: closed
// prints: closed since: open, next is d
// prints: replaced since: next is 4
// prints: the lowest number is free
// prints: an anonymous file is itself
#include "live.h"
#include <sys/eventfd.h>

static int count_open(void)
{
	int count = 0;
	for (int fd = 0; fd < 300; fd++)
		count += is_open(fd);
	return count;
}

int main(void)
{
	need_session();
	write_file("letters", "abcdefghij");
	write_file("digits", "0123456789");
	int letters = open("letters", O_RDONLY), digits = open("digits", O_RDONLY | O_CLOEXEC);
	int unlinked = open("unlinked", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(letters >= 0 && digits >= 0 && unlinked >= 0);
	write_all(unlinked, "gone but open", 13);
	CHECK(unlink("unlinked") == 0);
	CHECK(lseek(unlinked, 5, SEEK_SET) == 5);
	expect_input(letters, "abc");
	expect_input(digits, "0123");
	int open_before = count_open();

	int id = checkpoint();
	if (first_time(id)) {
		int ends[2], sockets[2];
		CHECK(open("letters", O_RDONLY) >= 0 && pipe(ends) == 0);
		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
		CHECK(fcntl(letters, F_DUPFD, 200) == 200 && eventfd(0, 0) >= 0);
		CHECK(dup2(ends[0], digits) == digits);
		CHECK(close(letters) == 0 && close(unlinked) == 0);
		back(id);
	}
	CHECK(count_open() == open_before && !is_open(200));
	say("opened since: closed");
	char byte[2] = "";
	read_all(letters, byte, 1);
	say("closed since: open, next is %s", byte);
	read_all(digits, byte, 1);
	CHECK(fcntl(digits, F_GETFD) == FD_CLOEXEC && fcntl(letters, F_GETFD) == 0);
	say("replaced since: next is %s", byte);
	int lowest = dup(0);
	CHECK(lowest >= 0 && lowest == unlinked + 1);
	say("the lowest number is free");
	expect_input(unlinked, "but open");
	say("an anonymous file is itself");
	return 0;
}
