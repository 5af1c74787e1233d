// Threads blocked in accept, in recvmsg with control data and in recvmmsg.
// covers: accept4 recvmsg recvmmsg sendmsg recvfrom
#include "threads.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

union control {
	char bytes[128];
	struct cmsghdr align;
};

static atomic_int here;
static int sockets[2];

static void *in_accept(void *argument)
{
	int listener = *(int *)argument;
	struct sockaddr_un peer;
	socklen_t length = sizeof peer;
	char text[32] = "";
	announce(&here);
	int connection = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC);
	CHECK(connection >= 0);
	CHECK(recvfrom(connection, text, 6, MSG_WAITALL, NULL, NULL) == 6);
	say("accepted: %s, family %d, address bytes %u", text, peer.sun_family, length);
	CHECK(close(connection) == 0);
	return NULL;
}

static void *in_recvmsg(void *argument)
{
	char text[4] = "", rest[16] = "";
	union control control;
	struct iovec vectors[2] = {{text, 3}, {rest, sizeof rest}};
	struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2, .msg_control = control.bytes,
				 .msg_controllen = sizeof control};
	(void)argument;
	announce(&here);
	CHECK(recvmsg(sockets[0], &message, 0) == 8);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	CHECK(header && header->cmsg_type == SCM_RIGHTS);
	int fd;
	memcpy(&fd, CMSG_DATA(header), sizeof fd);
	say("message %s+%s with a descriptor", text, rest);
	return (void *)(long)fd;
}

static void *in_recvmmsg(void *argument)
{
	char texts[3][16] = {{0}};
	struct iovec vectors[3];
	struct mmsghdr messages[3] = {0};
	(void)argument;
	for (int i = 0; i < 3; i++) {
		vectors[i] = (struct iovec){texts[i], 16};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
	}
	announce(&here);
	CHECK(recvmmsg(sockets[0], messages, 3, 0, NULL) == 3);
	for (int i = 0; i < 3; i++)
		say("of several: %u bytes %s", messages[i].msg_len, texts[i]);
	return NULL;
}

static void send_fd(int fd)
{
	union control control = {{0}};
	struct iovec vector = {"message", 8};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = CMSG_SPACE(sizeof fd)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	CHECK(sendmsg(sockets[1], &message, 0) == 8);
}

static pthread_t begin(void *(*body)(void *), void *argument)
{
	atomic_store(&here, 0);
	pthread_t thread = start(body, argument);
	until_asleep(&here);
	say("meanwhile %llx", (unsigned long long)compute(2, 200000));
	return thread;
}

int main(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "blocked-socket"};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 4) == 0);
	for (int i = 0; i < 3; i++) {
		pthread_t thread = begin(in_accept, &listener);
		int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK(connect(client, (struct sockaddr *)&name, sizeof name) == 0);
		CHECK(write(client, "hello", 6) == 6);
		join(thread);
		CHECK(close(client) == 0);
	}
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
	for (int i = 0; i < 3; i++) {
		int ends[2];
		char text[8] = "";
		CHECK(pipe(ends) == 0);
		pthread_t thread = begin(in_recvmsg, NULL);
		send_fd(ends[1]);
		int fd = (int)join(thread);
		CHECK(write(fd, "through", 7) == 7 && read(ends[0], text, 7) == 7);
		say("written %s the passed descriptor", text);
		CHECK(close(fd) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
	}
	pthread_t thread = begin(in_recvmmsg, NULL);
	for (int i = 0; i < 3; i++)
		CHECK(send(sockets[1], "one two three four" + 4 * i, 3 + i, 0) == 3 + i);
	join(thread);
	return 0;
}
