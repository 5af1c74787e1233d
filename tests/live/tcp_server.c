// A server with 50 connections goes back while it reads a request, and does again what
// it did for others; its client, another process, checks every byte of every answer.
// prints: client: 200 answers, every byte right
// prints: server: 200 requests, 40 rollbacks, 40 replays
#include "live.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#define CONNECTIONS 50
#define ROUNDS 4
#define BODY 3000

struct message {
	uint32_t connection, round;
	unsigned char body[BODY];
};

static unsigned char pattern(uint32_t connection, uint32_t round, int at)
{
	return (unsigned char)(connection * 7 + round * 13 + (uint32_t)at * 31 + (uint32_t)at / 256);
}

static void client(const struct sockaddr_in *address)
{
	static int fds[CONNECTIONS];
	struct message message;
	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(fds[i] >= 0);
		CHECK(connect(fds[i], (const struct sockaddr *)address, sizeof *address) == 0);
	}
	int answers = 0;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < CONNECTIONS; i++) {
			message.connection = i;
			message.round = round;
			for (int at = 0; at < BODY; at++)
				message.body[at] = pattern(i, round, at);
			// In two pieces, so that the server may find half a request.
			write_all(fds[i], &message, sizeof message / 2);
			write_all(fds[i], (char *)&message + sizeof message / 2,
				  sizeof message - sizeof message / 2);
		}
		for (uint32_t i = 0; i < CONNECTIONS; i++) {
			read_all(fds[i], &message, sizeof message);
			CHECK(message.connection == i && message.round == round);
			for (int at = 0; at < BODY; at++)
				CHECK(message.body[at] == (unsigned char)~pattern(i, round, at));
			answers++;
		}
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		char byte;
		CHECK(shutdown(fds[i], SHUT_WR) == 0);
		// Not one byte more than the answers.
		CHECK(read(fds[i], &byte, 1) == 0);
	}
	say("client: %d answers, every byte right", answers);
	_exit(0);
}

static int rollbacks, replays;

// False at the end of the connection.
static int serve(int fd)
{
	struct message message;
	int id = checkpoint();
	int count = rv_rollbacks(id);
	ssize_t first = read(fd, &message, 1000);
	CHECK(first >= 0);
	if (first == 0) {
		forget(id);
		return 0;
	}
	read_all(fd, (char *)&message + first, 1500 - (size_t)first);
	if (message.connection % 5 == 0 && count == 0)
		back(id);
	read_all(fd, (char *)&message + 1500, sizeof message - 1500);
	for (int at = 0; at < BODY; at++) {
		CHECK(message.body[at] == pattern(message.connection, message.round, at));
		message.body[at] = (unsigned char)~message.body[at];
	}
	write_all(fd, &message, sizeof message);
	rollbacks += count;
	if (message.connection % 5 == 1) {
		again(id);
		replays++;
	}
	forget(id);
	return 1;
}

int main(void)
{
	need_session();
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0);
	CHECK(listen(listener, 128) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(listener);
		client(&address);
	}
	int events = epoll_create1(0), alive = 0, accepted = 0, requests = 0;
	struct epoll_event wanted = {.events = EPOLLIN, .data.fd = listener};
	CHECK(events >= 0 && epoll_ctl(events, EPOLL_CTL_ADD, listener, &wanted) == 0);
	while (accepted < CONNECTIONS || alive > 0) {
		struct epoll_event ready[16];
		int count = epoll_wait(events, ready, 16, -1);
		CHECK(count > 0);
		for (int i = 0; i < count; i++) {
			int fd = ready[i].data.fd;
			if (fd == listener) {
				wanted.data.fd = accept(listener, NULL, NULL);
				CHECK(wanted.data.fd >= 0);
				CHECK(epoll_ctl(events, EPOLL_CTL_ADD, wanted.data.fd, &wanted) == 0);
				accepted++;
				alive++;
			} else if (serve(fd)) {
				requests++;
			} else {
				CHECK(close(fd) == 0);
				alive--;
			}
		}
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("server: %d requests, %d rollbacks, %d replays", requests, rollbacks, replays);
	return 0;
}
