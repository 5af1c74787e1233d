// Input that was given back by a rollback and not read again by the next one is not lost:
// of a pipe and of connections, also of those that were not accepted again.
// prints: round 0: pipe abc, def
// prints: round 0: first one, two
// prints: round 0: second three
// prints: round 1: pipe abc
// prints: round 1: first one
// prints: round 2: nothing
// prints: round 3: pipe abc, def
// prints: round 3: first one, two
// prints: round 3: second three
// prints: then: pipe ghi
#include "live.h"
#include <arpa/inet.h>

static int listener;

static int connected(void)
{
	struct sockaddr_in address;
	socklen_t length = sizeof address;
	CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0);
	return fd;
}

static int accepted(void)
{
	int fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	return fd;
}

int main(void)
{
	need_session();
	struct sockaddr_in address = {.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
	int ends[2];
	CHECK(pipe(ends) == 0);
	// Both ends of the connections are ours: those that ask were made before.
	int one = connected(), two = connected();
	write_all(ends[1], "abcdef", 6);
	write_all(one, "onetwo", 6);
	write_all(two, "three", 5);

	int id = checkpoint();
	int round = rv_rollbacks(id);
	if (round == 2) {
		say("round 2: nothing");
		back(id);
	}
	expect_input(ends[0], "abc");
	if (round != 1)
		expect_input(ends[0], "def");
	say("round %d: pipe %s", round, round == 1 ? "abc" : "abc, def");
	int first = accepted();
	expect_input(first, "one");
	if (round == 1) {
		say("round 1: first one");
		back(id);
	}
	expect_input(first, "two");
	say("round %d: first one, two", round);
	int second = accepted();
	expect_input(second, "three");
	say("round %d: second three", round);
	if (round == 0)
		back(id);
	write_all(ends[1], "ghi", 3);
	expect_input(ends[0], "ghi");
	say("then: pipe ghi");
	return 0;
}
