// Descriptors and credentials that travel through sockets.
// covers: sendmsg recvmsg
#include "guest.h"
#include <sys/socket.h>
#include <sys/uio.h>

union control {
	char bytes[256];
	struct cmsghdr align;
};

static void send_fds(int socket, const int *fds, int count)
{
	union control control = {{0}};
	struct iovec vector = {"fds", 3};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	CHECK(sendmsg(socket, &message, 0) == 3);
}

static int receive(int socket, int *fds, size_t space)
{
	union control control;
	char text[16];
	int count = 0;
	struct iovec vector = {text, sizeof text};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = space};
	CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 3);
	say("control %zu bytes, flags %x", (size_t)message.msg_controllen,
	    message.msg_flags & MSG_CTRUNC);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
		if (h->cmsg_type == SCM_RIGHTS) {
			count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(h), count * sizeof(int));
		} else if (h->cmsg_type == SCM_CREDENTIALS) {
			struct ucred credentials;
			memcpy(&credentials, CMSG_DATA(h), sizeof credentials);
			nondet("sender pid %d", credentials.pid);
			say("sender is me or mine: %d", credentials.uid == getuid());
		}
	}
	return count;
}

int main(void)
{
	int pair[2], fds[8], pipe_ends[2];
	char text[16] = "";
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	write_file("passed", "in a file");
	pid_t child = fork();
	if (child == 0) {
		int file = open("passed", O_RDONLY);
		CHECK(pipe(pipe_ends) == 0);
		send_fds(pair[1], (int[]){file, pipe_ends[1], file}, 3);
		CHECK(read(pipe_ends[0], text, 16) == 9);
		say("child got %s through the pipe it passed on", text);
		_exit(0);
	}
	CHECK(receive(pair[0], fds, 256) == 3);
	CHECK(read(fds[0], text, 2) == 2 && read(fds[2], text + 2, 7) == 7);
	say("read through passed descriptors: %s", text);
	CHECK(fcntl(fds[0], F_GETFD) == FD_CLOEXEC);
	CHECK(write(fds[1], text, 9) == 9);
	close(fds[1]);
	reap("child", child);
	CHECK(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) == 0);
	send_fds(pair[1], (int[]){0, 1}, 2);
	CHECK(receive(pair[0], fds, 256) == 2);
	send_fds(pair[1], (int[]){0, 1, 2}, 3);
	say("into too small a space: %d", receive(pair[0], fds, CMSG_SPACE(sizeof(struct ucred))));
	struct msghdr bad = {.msg_iov = BAD, .msg_iovlen = 1};
	CHECK_ERR(sendmsg(pair[0], &bad, 0), EFAULT);
	CHECK_ERR(recvmsg(pair[0], BAD, 0), EFAULT);
	return 0;
}
