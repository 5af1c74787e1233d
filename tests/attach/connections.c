// A server with 20 open connections, and a client, another process, that sees no byte
// doubled and none missing. (It would see answers again that are given again: no rollback.)
// without-rollback
#include "attach.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONNECTIONS = 20 };

static void client(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	FILE *files[CONNECTIONS];
	int fds[CONNECTIONS];
	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(fds[i] >= 0 && connect(fds[i], (void *)&address, sizeof address) == 0);
		CHECK((files[i] = fdopen(fds[i], "r")));
	}
	for (long round = 1;; round++) {
		for (int i = 0; i < CONNECTIONS; i++) {
			CHECK(dprintf(fds[i], "%d %ld\n", i, round) > 0);
			char line[128];
			if (!fgets(line, sizeof line, files[i]))
				_exit(0);
			int which = -1;
			long number = 0, count = 0;
			CHECK(sscanf(line, "%d %ld %ld", &which, &number, &count) == 3);
			CHECK(which == i && number == round && count == round);
		}
		nap(5);
	}
}

int main(void)
{
	permit();
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = {.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	socklen_t length = sizeof address;
	CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, CONNECTIONS) == 0);
	CHECK(getsockname(listener, (void *)&address, &length) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(listener);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		client(ntohs(address.sin_port));
	}
	struct pollfd set[CONNECTIONS];
	static char lines[CONNECTIONS][128];
	static int filled[CONNECTIONS];
	static long counts[CONNECTIONS];
	for (int i = 0; i < CONNECTIONS; i++)
		set[i] = (struct pollfd){accept(listener, NULL, NULL), POLLIN, 0};
	for (long answers = 0;;) {
		CHECK(poll(set, CONNECTIONS, -1) > 0);
		for (int i = 0; i < CONNECTIONS; i++) {
			if (!(set[i].revents & POLLIN))
				continue;
			ssize_t got = read(set[i].fd, lines[i] + filled[i], sizeof lines[i] - filled[i]);
			CHECK(got > 0);
			filled[i] += got;
			char *end = memchr(lines[i], '\n', filled[i]);
			if (!end)
				continue;
			*end = 0;
			filled[i] = 0;
			CHECK(dprintf(set[i].fd, "%s %ld\n", lines[i], ++counts[i]) > 0);
			answers++;
			if (answers % CONNECTIONS == 0)
				printf("step %ld\n", answers / CONNECTIONS);
		}
	}
}
