// What moves input inside the kernel (splice, tee) gets what comes again first, too. What
// they took out of a pipe before the rollback is lost, which is said, like what they wrote.
// prints: tee ab, splice abc, read de
// prints: nothing waits: 1
// prints: in a file at 5: abcde
// prints: then fg
// prints: lost: splice from a pipe
// prints: lost: 2 bytes to another
// prints: lost: 3 bytes by pwrite
// prints: lost: 4 bytes by sendmmsg
#include "live.h"

static int from[2], to[2];

static void moved_again(void)
{
	write_all(from[1], "abcde", 5);
	int id = checkpoint();
	char text[16] = "", teed[16] = "", rest[16] = "";
	if (first_time(id)) {
		read_all(from[0], text, 5);
		back(id);
	}
	CHECK(tee(from[0], to[1], 2, 0) == 2);
	read_all(to[0], teed, 2);
	CHECK(splice(from[0], NULL, to[1], NULL, 3, SPLICE_F_MOVE) == 3);
	read_all(to[0], text, 3);
	read_all(from[0], rest, 2);
	say("tee %s, splice %s, read %s", teed, text, rest);
	forget(id);
}

static void no_room(void)
{
	CHECK(fcntl(to[1], F_SETPIPE_SZ, PAGE) == PAGE);
	write_all(from[1], "x", 1);
	char page[PAGE] = "";
	int id = checkpoint();
	if (first_time(id)) {
		read_all(from[0], page, 1);
		back(id);
	}
	write_all(to[1], page, PAGE);
	long result = splice(from[0], NULL, to[1], NULL, 1, SPLICE_F_NONBLOCK);
	CHECK(result == -1 && errno == EAGAIN);
	read_all(to[0], page, PAGE);
	say("nothing waits: %ld", splice(from[0], NULL, to[1], NULL, 8, SPLICE_F_NONBLOCK));
	read_all(to[0], page, 1);
	forget(id);
}

static void to_file(void)
{
	int file = open("moved", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(file >= 0);
	write_all(from[1], "abcde", 5);
	int id = checkpoint();
	char text[16] = "";
	loff_t place = 5;
	if (first_time(id)) {
		read_all(from[0], text, 5);
		write_all(from[1], "fg", 2);
		back(id);
	}
	CHECK(splice(from[0], NULL, file, &place, 16, 0) == 5 && place == 10);
	CHECK(lseek(file, 0, SEEK_CUR) == 0);
	CHECK(pread(file, text, 16, 5) == 5);
	say("in a file at 5: %s", text);
	expect_input(from[0], "fg");
	say("then fg");
	forget(id);
	CHECK(close(file) == 0);
}

static void said(void)
{
	int file = open("moved", O_RDWR | O_CLOEXEC), pair[2];
	CHECK(file >= 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	write_all(from[1], "ab", 2);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(splice(from[0], NULL, to[1], NULL, 2, 0) == 2);
		CHECK(pwrite(file, "abc", 3, 0) == 3);
		struct iovec parts[2] = {{(char *)"a", 1}, {(char *)"bcd", 3}};
		struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
					      {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
		CHECK(sendmmsg(pair[0], messages, 2, 0) == 2);
		back(id);
	}
	char text[1024], wanted[128];
	CHECK(rv_lost(id, text, sizeof text) > 0);
	snprintf(wanted, sizeof wanted, "descriptor %d: what went through splice", from[0]);
	say("lost: %s", strstr(text, wanted) ? "splice from a pipe" : text);
	snprintf(wanted, sizeof wanted, "descriptor %d: the 2 bytes", to[1]);
	say("lost: %s", strstr(text, wanted) ? "2 bytes to another" : text);
	snprintf(wanted, sizeof wanted, "descriptor %d: the 3 bytes", file);
	say("lost: %s", strstr(text, wanted) ? "3 bytes by pwrite" : text);
	snprintf(wanted, sizeof wanted, "descriptor %d: the 4 bytes", pair[0]);
	say("lost: %s", strstr(text, wanted) ? "4 bytes by sendmmsg" : text);
	forget(id);
}

int main(void)
{
	need_session();
	CHECK(pipe(from) == 0 && pipe(to) == 0);
	moved_again();
	no_room();
	to_file();
	said();
	return 0;
}
