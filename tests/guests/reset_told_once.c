// That a connection was broken off is told once: by the call that asks first, SO_ERROR or a read; then it has ended.
// covers: poll getsockopt recvfrom sendto setsockopt accept4
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static int listener;
static struct sockaddr_in address;

// A connection whose other end has broken it off.
static int broken_off(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(fd, (void *)&address, sizeof address) == 0);
	int other = accept(listener, NULL, NULL);
	struct linger at_once = {1, 0};
	CHECK(setsockopt(other, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
	CHECK(close(other) == 0);
	struct pollfd polled = {fd, POLLIN, 0};
	CHECK(poll(&polled, 1, -1) == 1);
	CHECK(polled.revents == (POLLIN | POLLERR | POLLHUP));
	return fd;
}

static int socket_error(int fd)
{
	int error;
	socklen_t length = sizeof error;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
	return error;
}

static void has_ended(int fd, const char *told_by)
{
	char byte;
	CHECK(socket_error(fd) == 0);
	CHECK(recv(fd, &byte, 1, 0) == 0);
	CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
	CHECK(socket_error(fd) == 0);
	CHECK(close(fd) == 0);
	say("told by %s, once", told_by);
}

int main(void)
{
	socklen_t length = sizeof address;
	address = (struct sockaddr_in){.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (void *)&address, &length) == 0);
	int asked = broken_off();
	CHECK(socket_error(asked) == ECONNRESET);
	has_ended(asked, "SO_ERROR");
	int reads = broken_off();
	char byte;
	CHECK(recv(reads, &byte, 1, 0) == -1 && errno == ECONNRESET);
	has_ended(reads, "a read");
	return 0;
}
