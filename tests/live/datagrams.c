// Datagrams that were received since a checkpoint are received again one by one, as
// long as they were, and a short buffer cuts them as before.
// prints: first 5, second 11, third 3
// prints: first 5, second 11, third 3
// prints: cut to 4, then second 11
#include "live.h"

int main(void)
{
	need_session();
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(send(ends[1], "first", 5, 0) == 5);
		CHECK(send(ends[1], "second long", 11, 0) == 11);
		CHECK(send(ends[1], "3rd", 3, 0) == 3);
		_exit(0);
	}
	CHECK(waitpid(child, NULL, 0) == child);
	int id = checkpoint();
	int count = rv_rollbacks(id);
	char bytes[64];
	if (count < 2) {
		ssize_t first = recv(ends[0], bytes, sizeof bytes, 0);
		ssize_t second = recv(ends[0], bytes, sizeof bytes, 0);
		CHECK(memcmp(bytes, "second long", 11) == 0);
		ssize_t third = recv(ends[0], bytes, sizeof bytes, 0);
		say("first %zd, second %zd, third %zd", first, second, third);
		back(id);
	}
	ssize_t cut = recv(ends[0], bytes, 4, 0);
	CHECK(memcmp(bytes, "firs", 4) == 0);
	say("cut to %zd, then second %zd", cut, recv(ends[0], bytes, sizeof bytes, 0));
	return 0;
}
