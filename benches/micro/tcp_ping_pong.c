// 64 bytes over TCP.
#include "socket_ping_pong.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in address = bound(listener);
	micro_require(listen(listener, 1) == 0, "listen");
	pid_t child = fork();
	if (child == 0) {
		int fd = accept(listener, NULL, NULL);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		echo_until_end(fd);
		_exit(0);
	}
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	micro_require(connect(fd, (void *)&address, sizeof address) == 0, "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	ping(fd, count);
	waitpid(child, NULL, 0);
	return 0;
}
