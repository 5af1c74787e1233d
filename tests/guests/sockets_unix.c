// Unix sockets: pairs, streams, datagrams, abstract names, credentials, options.
// covers: socket socketpair bind listen accept accept4 connect getsockname getpeername shutdown
// covers: setsockopt getsockopt sendto recvfrom
#include "guest.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static socklen_t name(struct sockaddr_un *address, const char *path, int abstract)
{
	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	strcpy(address->sun_path + abstract, path);
	return offsetof(struct sockaddr_un, sun_path) + abstract + strlen(path) + !abstract;
}

static void stream(void)
{
	struct sockaddr_un address, peer;
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t length = name(&address, "socket", 0);
	CHECK(bind(listener, (void *)&address, length) == 0);
	CHECK_ERR(bind(listener, (void *)&address, length), EADDRINUSE);
	CHECK(listen(listener, 5) == 0);
	pid_t child = fork();
	if (child == 0) {
		char text[64];
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		CHECK(connect(fd, (void *)&address, length) == 0);
		CHECK(send(fd, "request", 7, 0) == 7);
		CHECK(shutdown(fd, SHUT_WR) == 0);
		int at = 0;
		ssize_t got;
		while ((got = recv(fd, text + at, sizeof text - at, 0)) > 0)
			at += got;
		say("answer: %.*s", at, text);
		_exit(0);
	}
	socklen_t peer_length = sizeof peer;
	int fd = accept(listener, (void *)&peer, &peer_length);
	CHECK(fd >= 0);
	say("peer address length %u family %d", peer_length, peer.sun_family);
	struct ucred credentials;
	socklen_t size = sizeof credentials;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0);
	nondet("peer pid %d uid %d", credentials.pid, credentials.uid);
	char text[64];
	ssize_t got, at = 0;
	while ((got = recv(fd, text + at, sizeof text - at, 0)) > 0)
		at += got;
	say("request: %.*s", (int)at, text);
	peer_length = sizeof peer;
	CHECK(getsockname(fd, (void *)&peer, &peer_length) == 0);
	say("bound to %s (%u)", peer.sun_path, peer_length);
	peer_length = 2;
	CHECK(getsockname(fd, (void *)&peer, &peer_length) == 0);
	say("truncated name: %u", peer_length);
	peer_length = sizeof peer;
	CHECK(getpeername(fd, (void *)&peer, &peer_length) == 0);
	CHECK(send(fd, "an answer", 9, MSG_NOSIGNAL) == 9);
	close(fd);
	reap("client", child);
	CHECK_ERR(accept4(socket(AF_UNIX, SOCK_STREAM, 0), NULL, NULL, 0), EINVAL);
	close(listener);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_ERR(connect(fd, (void *)&address, length), ECONNREFUSED);
	name(&address, "absent", 0);
	CHECK_ERR(connect(fd, (void *)&address, length), ENOENT);
	close(fd);
}

static void datagrams(void)
{
	struct sockaddr_un address, from;
	char unique[64], text[16];
	snprintf(unique, sizeof unique, "retrovane-guest-%d-%d", getpid(), getuid());
	int a = socket(AF_UNIX, SOCK_DGRAM, 0), b = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	socklen_t length = name(&address, unique, 1);
	CHECK(bind(a, (void *)&address, length) == 0);
	CHECK(sendto(b, "datagram", 8, 0, (void *)&address, length) == 8);
	CHECK(sendto(b, "", 0, 0, (void *)&address, length) == 0);
	CHECK(sendto(b, "a much longer datagram", 22, 0, (void *)&address, length) == 22);
	socklen_t from_length = sizeof from;
	memset(text, '#', sizeof text);
	CHECK(recvfrom(a, text, sizeof text, 0, (void *)&from, &from_length) == 8 && text[8] == '#');
	say("from length %u", from_length);
	CHECK(recv(a, text, sizeof text, 0) == 0);
	CHECK(recvfrom(a, text, sizeof text, MSG_TRUNC | MSG_PEEK, NULL, NULL) == 22);
	CHECK(recvfrom(a, text, sizeof text, 0, NULL, NULL) == sizeof text);
	CHECK_ERR(recv(a, text, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_ERR(recv(b, text, 1, 0), EAGAIN);
	close(a);
	close(b);
}

int main(void)
{
	int pair[2], value;
	char text[32];
	socklen_t size = sizeof value;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	CHECK(write(pair[0], "both", 4) == 4 && write(pair[1], "ways", 4) == 4);
	CHECK(recv(pair[1], text, 2, MSG_PEEK) == 2);
	CHECK(read(pair[1], text, 32) == 4 && memcmp(text, "both", 4) == 0);
	CHECK(recv(pair[0], text, 32, MSG_WAITALL) == 4);
	CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){8192}, sizeof(int)) == 0);
	CHECK(getsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &value, &size) == 0);
	say("SO_SNDBUF %d (%u)", value, size);
	CHECK(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &value, &size) == 0);
	say("SO_TYPE %d", value);
	struct linger linger;
	size = sizeof linger;
	CHECK(getsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, &size) == 0);
	size = 2;
	memset(&value, 0x7f, sizeof value);
	CHECK(getsockopt(pair[0], SOL_SOCKET, SO_ERROR, &value, &size) == 0);
	say("short option: %x (%u)", value, size);
	CHECK_ERR(setsockopt(pair[0], SOL_SOCKET, 9999, &value, 4), ENOPROTOOPT);
	close(pair[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK_ERR(write(pair[1], "x", 1), EPIPE);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	CHECK(write(pair[0], "one", 3) == 3 && write(pair[0], "two", 3) == 3);
	CHECK(read(pair[1], text, 32) == 3);
	say("packet %.3s", text);
	stream();
	datagrams();
	CHECK_ERR(socket(999, SOCK_STREAM, 0), EAFNOSUPPORT);
	CHECK_ERR(listen(0, 1), ENOTSOCK);
	return 0;
}
