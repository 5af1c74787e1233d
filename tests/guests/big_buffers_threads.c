// Threads wait in calls that have room for more than any buffer of a recorder: others run
// meanwhile, and what arrives is whole.
// covers: epoll_wait epoll_pwait recvmmsg
#include "guest.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define EVENTS 65536
#define MESSAGES 64
#define BYTES 65000

static int pipes[2], sockets[2];

static void *wait_for_events(void *unused)
{
	(void)unused;
	struct epoll_event *events = calloc(EVENTS, sizeof *events);
	int poll = epoll_create1(0);
	struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 4711};
	CHECK(epoll_ctl(poll, EPOLL_CTL_ADD, pipes[0], &wanted) == 0);
	CHECK(epoll_wait(poll, events, EVENTS, -1) == 1);
	CHECK(epoll_pwait(poll, events, EVENTS, -1, NULL) == 1);
	CHECK_ERR(epoll_wait(poll, events, (int)hidden(-1), -1), EINVAL);
	CHECK_ERR(epoll_wait(poll, events, (int)hidden(1 << 30), -1), EINVAL);
	say("event of %d", (int)events[0].data.u64);
	return events;
}

static void *wait_for_messages(void *unused)
{
	(void)unused;
	struct mmsghdr *headers = calloc(MESSAGES, sizeof *headers);
	struct iovec *vectors = calloc(MESSAGES, sizeof *vectors);
	for (int i = 0; i < MESSAGES; i++) {
		vectors[i] = (struct iovec){malloc(BYTES), BYTES};
		headers[i].msg_hdr.msg_iov = &vectors[i];
		headers[i].msg_hdr.msg_iovlen = 1;
	}
	for (int seen = 0; seen < 12;) {
		int got = recvmmsg(sockets[0], headers, MESSAGES, MSG_WAITFORONE, NULL);
		CHECK(got > 0);
		for (int i = 0; i < got; i++, seen++) {
			unsigned char *bytes = vectors[i].iov_base;
			CHECK(headers[i].msg_len == (unsigned)(30000 + seen));
			CHECK((headers[i].msg_hdr.msg_flags & MSG_TRUNC) == 0);
			CHECK(bytes[0] == seen && bytes[29999 + seen] == seen);
		}
	}
	say("all messages");
	return NULL;
}

static void nap(void)
{
	struct timespec t = {0, 50000000};
	nanosleep(&t, NULL);
}

int main(void)
{
	static unsigned char bytes[BYTES];
	pthread_t thread;
	CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
	CHECK(pthread_create(&thread, NULL, wait_for_events, NULL) == 0);
	nap();
	CHECK(write(pipes[1], "x", 1) == 1);
	CHECK(pthread_join(thread, NULL) == 0);

	CHECK(pthread_create(&thread, NULL, wait_for_messages, NULL) == 0);
	for (int i = 0; i < 12; i++) {
		memset(bytes, i, sizeof bytes);
		CHECK(send(sockets[1], bytes, 30000 + i, 0) == 30000 + i);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	return 0;
}
