// What was received from a stream socket since a checkpoint is received again: by recv,
// looked at with MSG_PEEK, by recvmsg and by MSG_WAITALL, without blocking where none
// is left. What was sent stays sent, and is sent once.
// prints: hello from outside
// prints: hello from outside
// prints: hello from outside
// prints: the other side got 1 answer
#include "live.h"

int main(void)
{
	static const char text[] = "hello from outside";
	const size_t length = sizeof text - 1;
	need_session();
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char got[64];
		size_t have = 0;
		close(ends[0]);
		write_all(ends[1], text, length);
		for (ssize_t more; (more = read(ends[1], got + have, sizeof got - have)) > 0;)
			have += (size_t)more;
		_exit(have == 6 && memcmp(got, "answer", 6) == 0 ? 1 : 2);
	}
	close(ends[1]);
	struct pollfd wanted = {.fd = ends[0], .events = POLLIN};
	CHECK(poll(&wanted, 1, -1) == 1);

	int id = checkpoint();
	int count = rv_rollbacks(id);
	char got[64] = "";
	if (count == 0) {
		read_all(ends[0], got, length);
	} else if (count == 1) {
		CHECK(recv(ends[0], got, 5, MSG_PEEK) == 5 && memcmp(got, "hello", 5) == 0);
		CHECK(recv(ends[0], got, length, MSG_WAITALL) == (ssize_t)length);
	} else {
		struct iovec parts[2] = {{got, 6}, {got + 6, length - 6}};
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
		ssize_t first = recvmsg(ends[0], &message, 0);
		CHECK(first > 0);
		read_all(ends[0], got + first, length - (size_t)first);
	}
	say("%s", got);
	CHECK_ERR(recv(ends[0], got, 1, MSG_DONTWAIT), EAGAIN);
	if (count < 2)
		back(id);
	forget(id);
	write_all(ends[0], "answer", 6);
	CHECK(shutdown(ends[0], SHUT_WR) == 0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	say("the other side got %d answer", WEXITSTATUS(status));
	return 0;
}
