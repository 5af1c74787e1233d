// Messages that were received since a checkpoint are received again with all that came with
// them: where they came from, their credentials, how they were cut; by recvfrom, recvmsg and
// recvmmsg, also those of which a rollback left some over.
// prints: round 0: one from A, two from B, 3 from A, four and five from B
// prints: round 1: one from A
// prints: round 2: one from A, two from B, 3 from A, four and five from B
// prints: answered A
// prints: credentials: ours, and again
#include "live.h"
#include <arpa/inet.h>

static int receiver, senders[2];
static struct sockaddr_in names[2];

static int bound(struct sockaddr_in *name)
{
	socklen_t length = sizeof *name;
	*name = (struct sockaddr_in){.sin_family = AF_INET};
	name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)name, sizeof *name) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)name, &length) == 0);
	return fd;
}

// Which of the senders it is.
static int sender(const struct sockaddr_in *from, socklen_t length)
{
	CHECK(length == sizeof *from && from->sin_family == AF_INET);
	CHECK(from->sin_port == names[0].sin_port || from->sin_port == names[1].sin_port);
	return from->sin_port == names[0].sin_port ? 'A' : 'B';
}

static int by_recvfrom(const char *text)
{
	char bytes[64];
	struct sockaddr_in from;
	for (int flags = MSG_PEEK;; flags = 0) {
		socklen_t length = sizeof from;
		memset(&from, 0, sizeof from);
		ssize_t got = recvfrom(receiver, bytes, sizeof bytes, flags, (struct sockaddr *)&from, &length);
		CHECK(got == (ssize_t)strlen(text) && memcmp(bytes, text, strlen(text)) == 0);
		if (flags == 0)
			return sender(&from, length);
		sender(&from, length);
	}
}

static int by_recvmsg(const char *text, size_t room)
{
	char first[1], second[63];
	struct sockaddr_in from;
	struct iovec parts[] = {{first, 1}, {second, room - 1}};
	for (int flags = MSG_PEEK;; flags = 0) {
		struct msghdr message = {&from, sizeof from, parts, 2, NULL, 0, 0};
		memset(&from, 0, sizeof from);
		ssize_t got = recvmsg(receiver, &message, flags);
		CHECK(got > 0 && first[0] == text[0] && memcmp(second, text + 1, (size_t)got - 1) == 0);
		CHECK((size_t)got == (room < strlen(text) ? room : strlen(text)));
		CHECK(!(message.msg_flags & MSG_TRUNC) == (room >= strlen(text)));
		if (flags == 0)
			return sender(&from, message.msg_namelen);
		sender(&from, message.msg_namelen);
	}
}

static int by_recvmmsg(void)
{
	char bytes[2][64];
	struct sockaddr_in from[2];
	struct iovec parts[] = {{bytes[0], 64}, {bytes[1], 64}};
	struct mmsghdr messages[2];
	memset(messages, 0, sizeof messages);
	for (int i = 0; i < 2; i++)
		messages[i].msg_hdr = (struct msghdr){&from[i], sizeof from[i], &parts[i], 1, NULL, 0, 0};
	CHECK(recvmmsg(receiver, messages, 2, MSG_WAITFORONE, NULL) == 2);
	CHECK(messages[0].msg_len == 4 && memcmp(bytes[0], "four", 4) == 0);
	CHECK(messages[1].msg_len == 4 && memcmp(bytes[1], "five", 4) == 0);
	CHECK(sender(&from[0], messages[0].msg_hdr.msg_namelen) == 'B');
	return sender(&from[1], messages[1].msg_hdr.msg_namelen);
}

// What is sent comes at once: over loopback it is there when the call returns.
static void transmit(int who, const char *text)
{
	struct sockaddr_in to;
	socklen_t length = sizeof to;
	CHECK(getsockname(receiver, (struct sockaddr *)&to, &length) == 0);
	CHECK(sendto(senders[who], text, strlen(text), 0, (struct sockaddr *)&to, length) == (ssize_t)strlen(text));
}

static void addresses(void)
{
	struct sockaddr_in own;
	receiver = bound(&own);
	senders[0] = bound(&names[0]);
	senders[1] = bound(&names[1]);
	transmit(0, "one");
	transmit(1, "two");
	transmit(0, "three");
	transmit(1, "four");
	transmit(1, "five");

	int id = checkpoint();
	int round = rv_rollbacks(id);
	int first = by_recvfrom("one");
	if (round == 1) {
		say("round 1: one from %c", first);
		back(id);
	}
	int second = by_recvmsg("two", 64), third = by_recvmsg("three", 3);
	int last = by_recvmmsg();
	say("round %d: one from %c, two from %c, 3 from %c, four and five from %c", round, first, second, third,
	    last);
	if (round == 0)
		back(id);
	forget(id);

	int later = checkpoint();
	if (!first_time(later)) {
		// The address that comes again is good for an answer.
		char byte;
		struct sockaddr_in from;
		socklen_t length = sizeof from;
		CHECK(recvfrom(receiver, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
		CHECK(sendto(receiver, "y", 1, 0, (struct sockaddr *)&from, length) == 1);
		CHECK(recv(senders[0], &byte, 1, 0) == 1 && byte == 'y');
		say("answered A");
		forget(later);
		return;
	}
	transmit(0, "x");
	CHECK(by_recvfrom("x") == 'A');
	back(later);
}

static int is_from_us(int fd)
{
	char byte;
	struct iovec part = {&byte, 1};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr message = {NULL, 0, &part, 1, &control, sizeof control, 0};
	CHECK(recvmsg(fd, &message, 0) == 1 && byte == 'c');
	struct cmsghdr *found = CMSG_FIRSTHDR(&message);
	struct ucred who;
	CHECK(found && found->cmsg_level == SOL_SOCKET && found->cmsg_type == SCM_CREDENTIALS);
	memcpy(&who, CMSG_DATA(found), sizeof who);
	return who.pid == getpid() && who.uid == getuid();
}

int main(void)
{
	need_session();
	addresses();
	int pair[2], on = 1;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
	write_all(pair[0], "c", 1);
	int id = checkpoint();
	CHECK(is_from_us(pair[1]));
	if (first_time(id))
		back(id);
	say("credentials: ours, and again");
	return 0;
}
