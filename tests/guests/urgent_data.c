// Urgent data of streams: where it is among the rest, in line or not, who is told by a signal.
// covers: sendto recvfrom ioctl fcntl setsockopt poll select
#include "guest.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>

static volatile sig_atomic_t signals;

static void on_urgent(int number)
{
	(void)number;
	signals++;
}

static void connected(int ends[2])
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (void *)&address, &length) == 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(ends[0], (void *)&address, sizeof address) == 0);
	ends[1] = accept(listener, NULL, NULL);
	CHECK(ends[1] >= 0);
	close(listener);
}

static int at_mark(int fd)
{
	int is;
	CHECK(ioctl(fd, SIOCATMARK, &is) == 0);
	return is;
}

static void until_readable(int fd)
{
	struct pollfd polled = {fd, POLLIN, 0};
	CHECK(poll(&polled, 1, -1) == 1);
}

static void until_urgent(int fd)
{
	struct pollfd polled = {fd, POLLPRI, 0};
	CHECK(poll(&polled, 1, -1) == 1 && polled.revents == POLLPRI);
}

// What of a read comes in one piece.
static void read_piece(int fd, const char *what)
{
	char text[32];
	ssize_t bytes = recv(fd, text, sizeof text, 0);
	CHECK(bytes >= 0);
	say("%s: %.*s, at the mark: %d", what, (int)bytes, text, at_mark(fd));
}

static void aside(int ends[2])
{
	char byte = 0;
	CHECK_ERR(recv(ends[1], &byte, 1, MSG_OOB), EINVAL);
	CHECK(send(ends[0], "abc", 3, 0) == 3);
	CHECK(send(ends[0], "deU", 3, MSG_OOB) == 3);
	CHECK(send(ends[0], "fgh", 3, 0) == 3);
	until_urgent(ends[1]);
	fd_set urgent;
	FD_ZERO(&urgent);
	FD_SET(ends[1], &urgent);
	CHECK(select(ends[1] + 1, NULL, NULL, &urgent, NULL) == 1);
	say("at the mark: %d", at_mark(ends[1]));
	until_readable(ends[1]);
	read_piece(ends[1], "before");
	CHECK(recv(ends[1], &byte, 1, MSG_OOB) == 1);
	say("urgent %c", byte);
	CHECK_ERR(recv(ends[1], &byte, 1, MSG_OOB), EINVAL);
	until_readable(ends[1]);
	read_piece(ends[1], "behind");
	CHECK(poll(&(struct pollfd){ends[1], POLLIN | POLLPRI, 0}, 1, 0) == 0);
}

static void in_line(int ends[2])
{
	char byte;
	CHECK(setsockopt(ends[1], SOL_SOCKET, SO_OOBINLINE, &(int){1}, sizeof(int)) == 0);
	CHECK(send(ends[0], "xV", 2, MSG_OOB) == 2);
	CHECK(send(ends[0], "yz", 2, 0) == 2);
	until_readable(ends[1]);
	CHECK_ERR(recv(ends[1], &byte, 1, MSG_OOB), EINVAL);
	read_piece(ends[1], "in line, before");
	read_piece(ends[1], "in line");
}

static void told(int ends[2])
{
	CHECK(signal(SIGURG, on_urgent) != SIG_ERR);
	CHECK(fcntl(ends[0], F_SETOWN, getpid()) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(send(ends[1], "!", 1, MSG_OOB) == 1);
		_exit(0);
	}
	while (!signals)
		usleep(1000);
	say("told %d times", (int)signals);
	reap("child", child);
	char byte = 0;
	until_urgent(ends[0]);
	CHECK(recv(ends[0], &byte, 1, MSG_OOB) == 1);
	say("urgent %c", byte);
}

int main(void)
{
	int ends[2];
	connected(ends);
	aside(ends);
	in_line(ends);
	told(ends);
	return 0;
}
