// A message forth and back over loopback between two processes.
#include "micro.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static struct sockaddr_in bound(int fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	micro_require(bind(fd, (void *)&address, sizeof address) == 0, "bind");
	micro_require(getsockname(fd, (void *)&address, &length) == 0, "getsockname");
	return address;
}

static void echo_until_end(int fd)
{
	char message[64];
	ssize_t got;
	while ((got = recv(fd, message, sizeof message, 0)) > 1)
		micro_require(send(fd, message, got, 0) == got, "send");
}

static void ping(int fd, long count)
{
	char message[64] = {0};
	int64_t start = micro_now();
	for (long i = 0; i < count; i++) {
		micro_require(send(fd, message, sizeof message, 0) == sizeof message, "send");
		micro_require(recv(fd, message, sizeof message, MSG_WAITALL) == sizeof message, "recv");
	}
	micro_report(start);
	micro_require(send(fd, "e", 1, 0) == 1, "send");
}
