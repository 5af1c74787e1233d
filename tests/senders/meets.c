/* Processes that meet in each way that the log tells of. Each message is there once; what is received goes to standard
 * output, and nothing else. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		exit(1);
	}
}

static void show(const char *text, ssize_t bytes)
{
	must(bytes > 0, "receive");
	printf("%.*s\n", (int)bytes, text);
	fflush(stdout);
}

static void end_all(int count)
{
	siginfo_t about;
	while (count--)
		must(waitid(P_ALL, 0, &about, WEXITED) == 0, "waitid");
}

/* Two writers, and one more that was put at its standard output and executed. */
static void pipes(void)
{
	int ends[2];
	char text[64];
	must(pipe(ends) == 0, "pipe");
	for (int writer = 1; writer <= 2; writer++)
		if (fork() == 0) {
			int bytes = snprintf(text, sizeof text, "by pipe %d", writer);
			_exit(write(ends[1], text, bytes) != bytes);
		}
	for (int message = 0; message < 2; message++)
		show(text, read(ends[0], text, sizeof "by pipe 1" - 1));
	end_all(2);
	if (fork() == 0) {
		must(dup2(ends[1], 1) == 1, "dup2");
		execl("/bin/echo", "echo", "by echo", (char *)NULL);
		_exit(127);
	}
	show(text, read(ends[0], text, sizeof "by echo" - 1));
	end_all(1);
}

static void pairs(void)
{
	int stream[2], packets[2];
	char text[64];
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0, "socketpair");
	must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets) == 0, "socketpair");
	if (fork() == 0) {
		struct iovec parts[2] = {{"by pair ", 8}, {"there", 5}};
		must(writev(stream[1], parts, 2) == 13, "writev");
		must(read(stream[1], text, 12) == 12, "read");
		show(text, 12);
		must(send(packets[1], "by packet", 9, 0) == 9, "send");
		_exit(0);
	}
	show(text, recv(stream[0], text, 13, MSG_WAITALL));
	must(write(stream[0], "by pair back", 12) == 12, "write");
	struct iovec part = {text, sizeof text};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	show(text, recvmsg(packets[0], &message, 0));
	end_all(1);
}

/* A listener, and two clients whose connections are accepted in one order or the other. */
static void connections(int family, struct sockaddr *address, socklen_t length, const char *name)
{
	int listener = socket(family, SOCK_STREAM, 0);
	char text[64];
	must(bind(listener, address, length) == 0 && listen(listener, 2) == 0, name);
	must(getsockname(listener, address, &length) == 0, "getsockname");
	for (int client = 1; client <= 2; client++)
		if (fork() == 0) {
			int peer = socket(family, SOCK_STREAM, 0);
			must(connect(peer, address, length) == 0, "connect");
			int bytes = snprintf(text, sizeof text, "by %s %d", name, client);
			must(write(peer, text, bytes) == bytes, "write");
			ssize_t back = read(peer, text, sizeof text);
			show(text, back);
			_exit(0);
		}
	for (int client = 0; client < 2; client++) {
		int peer = accept(listener, NULL, NULL);
		ssize_t bytes = read(peer, text, sizeof text);
		show(text, bytes);
		memcpy(text, "to", 2);
		must(send(peer, text, bytes, 0) == bytes, "send");
		close(peer);
	}
	end_all(2);
	close(listener);
}

static void datagrams(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
	socklen_t length = sizeof address;
	int here = socket(AF_INET, SOCK_DGRAM, 0);
	char text[64];
	must(bind(here, (struct sockaddr *)&address, length) == 0, "bind");
	must(getsockname(here, (struct sockaddr *)&address, &length) == 0, "getsockname");
	if (fork() == 0) {
		int there = socket(AF_INET, SOCK_DGRAM, 0);
		must(sendto(there, "by datagram", 11, 0, (struct sockaddr *)&address, length) == 11, "sendto");
		_exit(0);
	}
	show(text, recvfrom(here, text, sizeof text, 0, (struct sockaddr *)&from, &length));
	end_all(1);
}

static void others(void)
{
	struct { long kind; char text[16]; } message = {1, "by queue"};
	int queue = msgget(IPC_PRIVATE, 0600), counter = eventfd(0, 0);
	uint64_t count = 7;
	if (fork() == 0) {
		must(msgsnd(queue, &message, 8, 0) == 0, "msgsnd");
		must(write(counter, &count, 8) == 8, "write");
		_exit(0);
	}
	memset(message.text, 0, sizeof message.text);
	show(message.text, msgrcv(queue, &message, sizeof message.text, 0, 0));
	must(read(counter, &count, 8) == 8 && count == 7, "eventfd");
	end_all(1);
	must(msgctl(queue, IPC_RMID, NULL) == 0, "msgctl");

	must(mkfifo("fifo", 0600) == 0, "mkfifo");
	char text[16];
	if (fork() == 0) {
		int end = open("fifo", O_WRONLY);
		must(write(end, "by fifo", 7) == 7, "write");
		_exit(0);
	}
	int end = open("fifo", O_RDONLY);
	show(text, read(end, text, sizeof text));
	end_all(1);
}

/* The writing end of a pipe goes to another process in a message, over a pair and over a connection; alone, or as the
 * second of several messages of one call. */
static void rights(int from, int to, const char *name, int are_many)
{
	int ends[2];
	char text[64], control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {text, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
				 .msg_controllen = sizeof control};
	char plain_text[1] = {'-'};
	struct iovec plain_part = {plain_text, 1};
	struct mmsghdr both[2] = {{.msg_hdr = {.msg_iov = &plain_part, .msg_iovlen = 1}}, {.msg_hdr = message}};
	must(pipe(ends) == 0, "pipe");
	if (fork() == 0) {
		int end;
		close(ends[0]);
		close(ends[1]);
		/* Its number is another one there. */
		must(dup2(0, ends[1]) == ends[1], "dup2");
		if (are_many) {
			must(recvmmsg(to, both, 2, 0, NULL) == 2, "recvmmsg");
			message = both[1].msg_hdr;
		} else {
			must(recvmsg(to, &message, 0) == 1, "recvmsg");
		}
		memcpy(&end, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof end);
		int bytes = snprintf(text, sizeof text, "by %s", name);
		_exit(write(end, text, bytes) != bytes);
	}
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
	text[0] = '.';
	if (are_many)
		must(sendmmsg(from, both, 2, 0) == 2, "sendmmsg");
	else
		must(sendmsg(from, &message, 0) == 1, "sendmsg");
	show(text, read(ends[0], text, sizeof text));
	close(ends[0]);
	close(ends[1]);
	end_all(1);
}

static void passed(void)
{
	int pair[2], listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "passed"};
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	rights(pair[0], pair[1], "rights of a pair", 0);
	rights(pair[0], pair[1], "rights of many", 1);
	must(bind(listener, (struct sockaddr *)&path, sizeof path) == 0 && listen(listener, 1) == 0, "bind");
	must(connect(client, (struct sockaddr *)&path, sizeof path) == 0, "connect");
	rights(accept(listener, NULL, NULL), client, "rights of a connection", 0);
}

static int of_thread[2];

static void *writes(void *unused)
{
	must(write(of_thread[1], "by thread", 9) == 9, "write");
	return unused;
}

static void threads(void)
{
	char text[64];
	must(pipe(of_thread) == 0, "pipe");
	if (fork() == 0) {
		pthread_t thread;
		must(pthread_create(&thread, NULL, writes, NULL) == 0, "pthread_create");
		pthread_join(thread, NULL);
		_exit(0);
	}
	show(text, read(of_thread[0], text, sizeof text));
	end_all(1);
}

static void caught(int number)
{
	(void)number;
}

static void signals(void)
{
	sigset_t usual, blocked;
	struct sigaction action = {.sa_handler = caught};
	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, &usual);
	pid_t child = fork();
	if (child == 0) {
		sigsuspend(&usual);
		kill(getppid(), SIGUSR1);
		for (;;)
			pause();
	}
	kill(child, SIGUSR1);
	sigsuspend(&usual);
	kill(child, SIGKILL);
	int status;
	must(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "waitpid");
}

int main(void)
{
	struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "socket"};
	struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	pipes();
	pairs();
	connections(AF_UNIX, (struct sockaddr *)&path, sizeof path, "unix");
	connections(AF_INET, (struct sockaddr *)&port, sizeof port, "inet");
	datagrams();
	others();
	passed();
	threads();
	signals();
	/* What comes from outside has no sender here. */
	return 0;
}
