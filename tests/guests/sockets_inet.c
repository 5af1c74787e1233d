// TCP and UDP over loopback: connections, options, out-of-band data, errors.
// covers: socket bind listen accept connect sendto recvfrom setsockopt getsockopt shutdown
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct sockaddr_in address;

static void bind_any(int fd)
{
	socklen_t length = sizeof address;
	address = (struct sockaddr_in){.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(fd, (void *)&address, sizeof address) == 0);
	CHECK(getsockname(fd, (void *)&address, &length) == 0);
	nondet("port %d", ntohs(address.sin_port));
}

static void tcp(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
	bind_any(listener);
	CHECK(listen(listener, 3) == 0);
	pid_t child = fork();
	if (child == 0) {
		int fd = socket(AF_INET, SOCK_STREAM, 0), number;
		CHECK(connect(fd, (void *)&address, sizeof address) == 0);
		CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
		for (int i = 0; i < 500; i++) {
			CHECK(send(fd, &i, sizeof i, 0) == sizeof i);
			CHECK(recv(fd, &number, sizeof number, MSG_WAITALL) == sizeof number);
			CHECK(number == i * 2);
		}
		_exit(11);
	}
	struct sockaddr_in peer;
	socklen_t length = sizeof peer;
	int fd = accept4(listener, (void *)&peer, &length, SOCK_CLOEXEC), number;
	say("accepted from %s, length %u", inet_ntoa(peer.sin_addr), length);
	nondet("peer port %d", ntohs(peer.sin_port));
	int sum = 0;
	while (recv(fd, &number, sizeof number, MSG_WAITALL) == sizeof number) {
		sum += number;
		number *= 2;
		CHECK(send(fd, &number, sizeof number, 0) == sizeof number);
	}
	say("sum %d", sum);
	reap("client", child);
	struct tcp_info info;
	length = sizeof info;
	CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
	nondet("rtt %u us", info.tcpi_rtt);
	close(fd);

	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int result = connect(fd, (void *)&address, sizeof address);
	CHECK(result == 0 || errno == EINPROGRESS);
	struct pollfd p = {fd, POLLOUT, 0};
	CHECK(poll(&p, 1, -1) == 1);
	length = sizeof number;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &length) == 0 && number == 0);
	int served = accept(listener, NULL, NULL);
	CHECK(send(served, "abcU", 4, MSG_OOB) == 4);
	p.events = POLLIN | POLLPRI;
	CHECK(poll(&p, 1, -1) == 1);
	char text[8];
	CHECK(recv(fd, text, 1, MSG_OOB) == 1);
	say("urgent %c", text[0]);
	CHECK(recv(fd, text, 8, 0) == 3);
	int waiting = 0;
	CHECK(ioctl(fd, FIONREAD, &waiting) == 0);
	say("waiting %d", waiting);
	struct linger hard = {1, 0};
	CHECK(setsockopt(served, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
	close(served);
	CHECK(poll(&p, 1, -1) == 1);
	CHECK_ERR(recv(fd, text, 1, 0), ECONNRESET);
	close(listener);
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERR(connect(fd, (void *)&address, sizeof address), ECONNREFUSED);
	close(fd);
}

static void udp(void)
{
	char text[100];
	struct sockaddr_in from;
	socklen_t length = sizeof from;
	int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
	bind_any(a);
	for (int i = 0; i < 50; i++) {
		int size = snprintf(text, sizeof text, "datagram %d", i);
		CHECK(sendto(b, text, size, 0, (void *)&address, sizeof address) == size);
		CHECK(recvfrom(a, text, sizeof text, 0, (void *)&from, &length) == size);
	}
	say("last %.11s, from length %u", text, length);
	CHECK(connect(b, (void *)&address, sizeof address) == 0);
	CHECK(send(b, "connected", 9, 0) == 9 && recv(a, text, sizeof text, 0) == 9);
	struct timeval limit = {0, 10000};
	CHECK(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	CHECK_ERR(recv(a, text, 1, 0), EAGAIN);
	close(a);
	CHECK(send(b, "lost", 4, 0) == 4);
	CHECK_ERR(recv(b, text, 4, 0), ECONNREFUSED);
	close(b);
}

int main(void)
{
	tcp();
	udp();
	int six = socket(AF_INET6, SOCK_STREAM, 0);
	outcome("inet6", six);
	outcome("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	return 0;
}
