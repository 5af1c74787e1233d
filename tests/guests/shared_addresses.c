// Which sockets may have the same address: SO_REUSEADDR, SO_REUSEPORT, one that listens, any address of both families.
// covers: socket bind listen setsockopt
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int port;

// A socket with an address; its options by letters: a and p for sharing, 6 for IPv6, o for that alone, y for any address.
static int with(int type, const char *options)
{
	int family = strchr(options, '6') ? AF_INET6 : AF_INET, one = 1;
	int fd = socket(family, type, 0);
	CHECK(fd >= 0);
	if (strchr(options, 'a'))
		CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
	if (strchr(options, 'p'))
		CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0);
	if (strchr(options, 'o'))
		CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0);
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
	if (!strchr(options, 'y'))
		v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	void *address = family == AF_INET6 ? (void *)&v6 : &v4;
	socklen_t length = family == AF_INET6 ? sizeof v6 : sizeof v4;
	if (bind(fd, address, length) < 0) {
		CHECK(errno == EADDRINUSE);
		close(fd);
		return -1;
	}
	CHECK(getsockname(fd, address, &length) == 0);
	port = ntohs(family == AF_INET6 ? v6.sin6_port : v4.sin_port);
	return fd;
}

static void pair(int type, const char *first, int listens, const char *second)
{
	port = 0;
	int one = with(type, first);
	CHECK(one >= 0);
	if (listens)
		CHECK(listen(one, 1) == 0);
	int other = with(type, second);
	say("%s '%s'%s beside it '%s': %s", type == SOCK_STREAM ? "stream" : "datagrams", first,
	    listens ? " that listens," : ",", second, other < 0 ? "in use" : "bound");
	if (other >= 0 && type == SOCK_STREAM)
		outcome("and it listens", listen(other, 1));
	close(one);
	if (other >= 0)
		close(other);
}

int main(void)
{
	static const char *const options[] = {"", "a", "p", "ap", "y", "ay", "py"};
	const int count = sizeof options / sizeof *options;
	for (int first = 0; first < count; first++)
		for (int second = 0; second < count; second++) {
			pair(SOCK_DGRAM, options[first], 0, options[second]);
			pair(SOCK_STREAM, options[first], 0, options[second]);
			pair(SOCK_STREAM, options[first], 1, options[second]);
		}
	int probe = socket(AF_INET6, SOCK_STREAM, 0);
	if (probe < 0)
		return 0;
	close(probe);
	static const char *const both[][2] = {{"6", "y"}, {"6", ""}, {"6o", "y"}, {"6a", "ya"}, {"y", "6"}, {"y", "6o"}};
	for (int i = 0; i < 6; i++) {
		pair(SOCK_STREAM, both[i][0], 1, both[i][1]);
		pair(SOCK_DGRAM, both[i][0], 0, both[i][1]);
	}
	return 0;
}
