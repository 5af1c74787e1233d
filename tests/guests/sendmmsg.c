// Many messages in one call.
// covers: sendmmsg recvmmsg
#include "guest.h"
#include <sys/socket.h>
#include <sys/uio.h>

int main(void)
{
	int pair[2];
	char in[8][16];
	struct mmsghdr messages[8] = {0};
	struct iovec vectors[8];
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	for (int i = 0; i < 8; i++) {
		vectors[i] = (struct iovec){"abcdefgh", i + 1};
		messages[i].msg_hdr.msg_iov = &vectors[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	CHECK(sendmmsg(pair[0], messages, 8, 0) == 8);
	for (int i = 0; i < 8; i++)
		printf("%u ", messages[i].msg_len);
	putchar('\n');
	memset(in, '#', sizeof in);
	for (int i = 0; i < 8; i++) {
		vectors[i] = (struct iovec){in[i], 16};
		messages[i].msg_len = 99;
	}
	struct timespec limit = {1, 0};
	CHECK(recvmmsg(pair[1], messages, 5, MSG_WAITFORONE, &limit) == 5);
	nondet("limit left %ld.%09ld", limit.tv_sec, limit.tv_nsec);
	for (int i = 0; i < 8; i++)
		printf("%u:%.9s ", messages[i].msg_len, in[i]);
	putchar('\n');
	CHECK(recvmmsg(pair[1], messages, 8, MSG_DONTWAIT, NULL) == 3);
	CHECK_ERR(recvmmsg(pair[1], messages, 8, MSG_DONTWAIT, NULL), EAGAIN);
	CHECK_ERR(sendmmsg(pair[0], BAD, 1, 0), EFAULT);
	return 0;
}
