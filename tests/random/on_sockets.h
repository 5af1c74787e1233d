// Operations on sockets, pipes and what waits for them.
#include "random.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

OPERATION void receive(struct self *me, int fd, int flags)
{
	char bytes[3000];
	ssize_t got = fold_result(me, recv(fd, bytes, 1 + (size_t)below(me, sizeof bytes - 1), flags | MSG_DONTWAIT));
	if (got > 0)
		fold(me, bytes, (size_t)got);
}

OPERATION void socket_pair(struct self *me)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	int ends[2], unread;
	if (socketpair(AF_UNIX, types[below(me, 3)], 0, ends) != 0)
		return;
	char bytes[2000];
	fill(me, bytes, sizeof bytes);
	for (long i = below(me, 6); i > 0; i--) {
		fold_result(me, send(ends[0], bytes, (size_t)below(me, sizeof bytes), MSG_NOSIGNAL | MSG_DONTWAIT));
		receive(me, ends[1], below(me, 2) ? MSG_PEEK : 0);
		fold_result(me, ioctl(ends[1], FIONREAD, &unread));
		fold_value(me, unread);
	}
	if (below(me, 2))
		fold_result(me, shutdown(ends[0], (int)below(me, 3)));
	receive(me, ends[1], MSG_TRUNC);
	fold_result(me, send(ends[1], "x", 1, MSG_DONTWAIT));
	close(ends[0]);
	fold_result(me, write(ends[1], "y", 1));
	close(ends[1]);
}

OPERATION void socket_passes(struct self *me)
{
	int ends[2], passed = open_shared_file(me, O_RDONLY);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		return;
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
	char text[8] = "passed";
	struct iovec piece = {text, sizeof text};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	fold_result(me, sendmsg(ends[0], &message, 0));
	close(passed);
	memset(&control, 0, sizeof control);
	message.msg_controllen = sizeof control;
	fold_result(me, recvmsg(ends[1], &message, below(me, 2) ? MSG_CMSG_CLOEXEC : 0));
	// Nothing came where a signal did: the number must be nobody else's.
	passed = -1;
	if (control.header.cmsg_len == CMSG_LEN(sizeof passed))
		memcpy(&passed, CMSG_DATA(&control.header), sizeof passed);
	fold_value(me, passed);
	fold_result(me, read(passed, text, sizeof text));
	fold(me, text, sizeof text);
	close(passed);
	close(ends[0]);
	close(ends[1]);
}

OPERATION void socket_stream(struct self *me)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof address;
	int listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ours = socket(AF_INET, SOCK_STREAM, 0), theirs;
	fold_result(me, setsockopt(listens, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
	bind(listens, (struct sockaddr *)&address, sizeof address);
	listen(listens, 5);
	getsockname(listens, (struct sockaddr *)&address, &length);
	fold_value(me, ntohs(address.sin_port));
	fold_result(me, connect(ours, (struct sockaddr *)&address, sizeof address));
	// A signal can have come between, or another thread have closed one of them by a mistaken number.
	struct pollfd comes = {.fd = listens, .events = POLLIN};
	if (poll(&comes, 1, 1000) != 1) {
		close(ours);
		close(listens);
		return;
	}
	theirs = accept4(listens, (struct sockaddr *)&address, &length, below(me, 2) ? SOCK_NONBLOCK : 0);
	fold_value(me, theirs);
	fold_value(me, address.sin_port);
	setsockopt(ours, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	char bytes[5000];
	fill(me, bytes, sizeof bytes);
	for (long i = below(me, 5); i > 0; i--) {
		struct iovec pieces[2] = {{bytes, (size_t)below(me, 2000)}, {bytes + 2000, (size_t)below(me, 2000)}};
		fold_result(me, writev(ours, pieces, 2));
		struct pollfd ready = {.fd = theirs, .events = POLLIN | POLLOUT};
		fold_result(me, poll(&ready, 1, 100));
		fold_value(me, ready.revents);
		receive(me, theirs, below(me, 3) ? 0 : MSG_WAITALL);
	}
	struct tcp_info info;
	length = sizeof info;
	memset(&info, 0, sizeof info);
	fold_result(me, getsockopt(ours, IPPROTO_TCP, TCP_INFO, &info, &length));
	fold(me, &info, sizeof info);
	int *closed = below(me, 2) ? &ours : &theirs;
	close(*closed);
	*closed = -1;
	receive(me, below(me, 2) ? ours : theirs, 0);
	close(ours);
	close(theirs);
	close(listens);
}

OPERATION void socket_datagrams(struct self *me)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, from;
	socklen_t length = sizeof address;
	int receives = socket(AF_INET, SOCK_DGRAM, 0), sends = socket(AF_INET, SOCK_DGRAM, 0);
	bind(receives, (struct sockaddr *)&address, sizeof address);
	getsockname(receives, (struct sockaddr *)&address, &length);
	char bytes[4][100];
	fill(me, bytes, sizeof bytes);
	struct iovec pieces[4];
	struct mmsghdr messages[4];
	memset(messages, 0, sizeof messages);
	for (int i = 0; i < 4; i++) {
		pieces[i] = (struct iovec){bytes[i], (size_t)below(me, 100)};
		messages[i].msg_hdr = (struct msghdr){.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &pieces[i], .msg_iovlen = 1};
	}
	fold_result(me, sendmmsg(sends, messages, (unsigned)below(me, 5), 0));
	for (int i = 0; i < 4; i++) {
		pieces[i].iov_len = 100;
		messages[i].msg_hdr.msg_name = &from;
		messages[i].msg_hdr.msg_namelen = sizeof from;
	}
	struct timespec none = {0, 0};
	long got = fold_result(me, recvmmsg(receives, messages, 4, MSG_DONTWAIT, below(me, 2) ? &none : NULL));
	for (long i = 0; i < got; i++)
		fold(me, bytes[i], messages[i].msg_len);
	fold_result(me, sendto(sends, bytes, 10, 0, NULL, 0));
	close(receives);
	close(sends);
}

OPERATION void socket_of_unix(struct self *me)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listens = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), ours = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "s%ld", (long)syscall(SYS_gettid));
	if (below(me, 2))
		address.sun_path[0] = 0;
	fold_result(me, bind(listens, (struct sockaddr *)&address, below(me, 2) ? sizeof address : 12));
	fold_result(me, connect(ours, (struct sockaddr *)&address, sizeof address));
	fold_result(me, listen(listens, 1));
	fold_result(me, connect(ours, (struct sockaddr *)&address, sizeof address));
	int theirs = accept(listens, NULL, NULL);
	fold_value(me, theirs);
	struct ucred credentials = {0, 0, 0};
	socklen_t length = sizeof credentials;
	fold_result(me, getsockopt(ours, SOL_SOCKET, SO_PEERCRED, &credentials, &length));
	fold(me, &credentials, sizeof credentials);
	close(theirs);
	receive(me, ours, 0);
	close(ours);
	close(listens);
	unlink(address.sun_path);
}

OPERATION void wait_with_poll(struct self *me)
{
	int ends[2], event = eventfd((unsigned)below(me, 2), EFD_NONBLOCK);
	if (pipe2(ends, O_NONBLOCK) != 0)
		return;
	if (below(me, 2))
		write(ends[1], "abc", 3);
	struct pollfd all[3] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}, {event, POLLIN | POLLOUT, 0}};
	fold_result(me, poll(all, (nfds_t)below(me, 4), (int)below(me, 2)));
	struct timespec nap = microseconds(below(me, 300));
	sigset_t none;
	sigemptyset(&none);
	fold_result(me, ppoll(all, 1, &nap, &none));
	fold(me, all, sizeof all);
	fd_set reads;
	FD_ZERO(&reads);
	if (ends[0] < FD_SETSIZE)
		FD_SET(ends[0], &reads);
	struct timeval soon = {0, below(me, 300)};
	fold_result(me, select(ends[0] + 1, &reads, NULL, NULL, &soon));
	fold_value(me, soon.tv_usec);
	uint64_t count = 3;
	fold_result(me, write(event, &count, 8));
	fold_result(me, read(event, &count, 8));
	fold_value(me, (long)count);
	close(event);
	close(ends[0]);
	close(ends[1]);
}

OPERATION void wait_with_epoll(struct self *me)
{
	int set = epoll_create1(EPOLL_CLOEXEC), ends[2], timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	if (pipe(ends) != 0)
		return;
	struct epoll_event event = {.events = EPOLLIN | (below(me, 2) ? EPOLLET : 0), .data.u64 = draw(me)}, got[4];
	memset(got, 0, sizeof got);
	fold_result(me, epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
	event.events = EPOLLIN | EPOLLONESHOT;
	fold_result(me, epoll_ctl(set, EPOLL_CTL_ADD, timer, &event));
	struct itimerspec spec = {{0, below(me, 100000)}, {0, 1 + below(me, 100000)}};
	timerfd_settime(timer, 0, &spec, NULL);
	for (int i = 0; i < 3; i++) {
		if (below(me, 2))
			write(ends[1], "e", 1);
		long count = fold_result(me, epoll_wait(set, got, 4, (int)below(me, 3)));
		for (long at = 0; at < count; at++)
			fold_value(me, (long)got[at].events);
	}
	uint64_t ticks = 0;
	fold_result(me, read(timer, &ticks, 8));
	fold_value(me, (long)ticks);
	timerfd_gettime(timer, &spec);
	fold_value(me, spec.it_value.tv_nsec);
	close(set);
	close(timer);
	close(ends[0]);
	close(ends[1]);
}

// A full pipe, and a timer that interrupts who waits for room.
OPERATION void wait_for_room(struct self *me)
{
	int ends[2];
	static const char zeros[70000];
	if (pipe(ends) != 0)
		return;
	fold_result(me, fcntl(ends[1], F_SETPIPE_SZ, PAGE));
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	fold_result(me, write(ends[1], zeros, (size_t)below(me, sizeof zeros)));
	fold_result(me, fcntl(ends[1], F_GETPIPE_SZ));
	char bytes[900];
	fold_result(me, fcntl(ends[0], F_SETFL, O_NONBLOCK));
	for (long i = below(me, 6); i > 0; i--)
		fold_result(me, read(ends[0], bytes, sizeof bytes));
	close(ends[0]);
	fold_result(me, write(ends[1], "nobody", 6));
	close(ends[1]);
}
