// Datagrams to a port that nobody has: who is told, by which calls, and how often.
// covers: recvfrom recvmsg sendto getsockopt connect poll epoll_wait
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static struct sockaddr_in nobody;

static int open_socket(struct sockaddr_in *own)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t length = sizeof *own;
	*own = (struct sockaddr_in){.sin_family = AF_INET};
	own->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(fd, (void *)own, sizeof *own) == 0);
	CHECK(getsockname(fd, (void *)own, &length) == 0);
	return fd;
}

static int is_told(int fd)
{
	struct pollfd polled = {fd, POLLIN, 0};
	CHECK(poll(&polled, 1, 0) >= 0);
	return polled.revents != 0;
}

static int socket_error(int fd)
{
	int error;
	socklen_t length = sizeof error;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
	return error;
}

static void connected(void)
{
	struct sockaddr_in own;
	int fd = open_socket(&own);
	char byte;
	CHECK(connect(fd, (void *)&nobody, sizeof nobody) == 0);
	CHECK(send(fd, "a", 1, 0) == 1);
	say("told %d", is_told(fd));
	CHECK_ERR(recv(fd, &byte, 1, 0), ECONNREFUSED);
	say("told again %d", is_told(fd));
	CHECK_ERR(recv(fd, &byte, 1, MSG_DONTWAIT), EAGAIN);

	CHECK(send(fd, "b", 1, 0) == 1);
	say("SO_ERROR %d", socket_error(fd) == ECONNREFUSED);
	say("then %d, told %d", socket_error(fd), is_told(fd));

	CHECK(send(fd, "c", 1, 0) == 1);
	CHECK_ERR(send(fd, "d", 1, 0), ECONNREFUSED);
	say("sent and told %d", is_told(fd));
	CHECK(send(fd, "e", 1, 0) == 1);
	CHECK_ERR(read(fd, &byte, 1), ECONNREFUSED);

	int epoll = epoll_create1(0);
	struct epoll_event event = {EPOLLIN | EPOLLET, {.fd = fd}};
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	CHECK(send(fd, "f", 1, 0) == 1);
	CHECK(epoll_wait(epoll, &event, 1, 1000) == 1);
	CHECK_ERR(recv(fd, &byte, 1, 0), ECONNREFUSED);
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	close(epoll);
	close(fd);
}

// The error is told before what had come, which stays.
static void before_datagrams(void)
{
	struct sockaddr_in own, other;
	int fd = open_socket(&own), gone = open_socket(&other);
	char in[4] = "";
	CHECK(connect(fd, (void *)&other, sizeof other) == 0);
	CHECK(sendto(gone, "hi", 2, 0, (void *)&own, sizeof own) == 2);
	close(gone);
	CHECK(send(fd, "a", 1, 0) == 1);
	CHECK_ERR(recv(fd, in, sizeof in, 0), ECONNREFUSED);
	say("told %d", is_told(fd));
	CHECK(recv(fd, in, sizeof in, 0) == 2);
	say("came %s, told %d", in, is_told(fd));
	close(fd);
}

static void unconnected(int hears)
{
	struct sockaddr_in own;
	int fd = open_socket(&own);
	char byte;
	CHECK(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &hears, sizeof hears) == 0);
	CHECK(sendto(fd, "a", 1, 0, (void *)&nobody, sizeof nobody) == 1);
	say("hears %d: told %d", hears, is_told(fd));
	say("recv %d", recv(fd, &byte, 1, MSG_DONTWAIT) < 0 ? errno : 0);
	close(fd);
}

int main(void)
{
	close(open_socket(&nobody));
	connected();
	before_datagrams();
	unconnected(0);
	unconnected(1);
	return 0;
}
