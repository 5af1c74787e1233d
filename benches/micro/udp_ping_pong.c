// 64 bytes over UDP.
#include "socket_ping_pong.h"

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in first = bound(a), second = bound(b);
	micro_require(connect(a, (void *)&second, sizeof second) == 0, "connect");
	micro_require(connect(b, (void *)&first, sizeof first) == 0, "connect");
	pid_t child = fork();
	if (child == 0) {
		echo_until_end(b);
		_exit(0);
	}
	ping(a, count);
	waitpid(child, NULL, 0);
	return 0;
}
