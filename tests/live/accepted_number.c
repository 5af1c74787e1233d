// A connection got the number of a file that had been closed. Back before both, the program
// closes the file again: what was read from the connection comes again all the same, when it
// is accepted. What was read from one that a range is closed with does not.
// prints: first: hello
// prints: again: hello
// prints: nothing of it is left
#include "live.h"
#include <netinet/in.h>

static int listen_somewhere(struct sockaddr_in *at)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof *at;
	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(bind(listener, (struct sockaddr *)at, sizeof *at) == 0 && listen(listener, 5) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)at, &length) == 0);
	return listener;
}

int main(void)
{
	need_session();
	struct sockaddr_in at;
	int listener = listen_somewhere(&at);
	int client = socket(AF_INET, SOCK_STREAM, 0), ends[2];
	CHECK(connect(client, (struct sockaddr *)&at, sizeof at) == 0);
	write_all(client, "hello", 5);
	CHECK(pipe(ends) == 0);
	write_all(ends[1], "lost", 4);
	int file = open("/etc/passwd", O_RDONLY);
	CHECK(file > ends[1]);
	int id = checkpoint();
	int is_first = first_time(id);
	CHECK(close(file) == 0);
	int connection = accept(listener, NULL, NULL);
	CHECK(connection == file);
	expect_input(connection, "hello");
	say(is_first ? "first: hello" : "again: hello");
	if (is_first) {
		expect_input(ends[0], "lost");
		back(id);
	}
	CHECK(close_range((unsigned)ends[0], (unsigned)ends[0], 0) == 0);
	int others[2];
	CHECK(pipe(others) == 0 && others[0] == ends[0]);
	write_all(others[1], "other", 5);
	expect_input(others[0], "other");
	say("nothing of it is left");
	return 0;
}
