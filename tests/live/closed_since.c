// Connections and pipes closed since a checkpoint: after a rollback their numbers are still
// taken, by something that ends. What was read of them comes again before that, an epoll
// set says so, and a connection that comes next has a number of its own. A pipe of which
// the program has one end left is whole again.
// prints: connection: request, then the end
// prints: the next connection has another number: next
// prints: pipe: abc, then the end
// prints: write end: Broken pipe
// prints: both ends: a pipe
// prints: one end: still here
// prints: listener: nobody comes
#include "live.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/un.h>

static int wait_for(int set)
{
	struct epoll_event event;
	int count = epoll_wait(set, &event, 1, 5000);
	CHECK(count == 1);
	return event.data.fd;
}

static void watch(int set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

static int connected(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0);
	return fd;
}

// A process that connects, asks, and goes away when told to; twice.
static pid_t client(const struct sockaddr_in *to, int told)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	char byte;
	int fd = connected(to);
	write_all(fd, "request", 7);
	read_all(told, &byte, 1);
	close(fd);
	read_all(told, &byte, 1);
	fd = connected(to);
	write_all(fd, "next", 4);
	read_all(told, &byte, 1);
	_exit(0);
}

static void connection(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0), tell[2];
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0 && pipe(tell) == 0);
	pid_t pid = client(&address, tell[0]);
	int fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	watch(set, fd);
	int id = checkpoint();
	char text[16] = "";
	if (first_time(id)) {
		// Options of its kind can be set.
	int one = 1, family = 0;
	socklen_t family_length = sizeof family;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_length) == 0 && family == AF_INET);
	CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
	CHECK(wait_for(set) == fd);
		read_all(fd, text, 7);
		write_all(tell[1], "1", 1);
		CHECK(wait_for(set) == fd && read(fd, text, 1) == 0 && close(fd) == 0);
		// The number is another's, in the same set.
		CHECK(dup(listener) == fd);
		watch(set, fd);
		back(id);
	}
	CHECK(wait_for(set) == fd);
	if (rv_rollbacks(id) == 1) {
		// What is left of it comes again behind what was read.
		read_all(fd, text, 3);
		back(id);
	}
	read_all(fd, text, 7);
	CHECK(wait_for(set) == fd && read(fd, text + 8, 1) == 0);
	say("connection: %s, then the end", text);
	write_all(tell[1], "2", 1);
	int next = accept(listener, NULL, NULL);
	CHECK(next >= 0 && next != fd);
	watch(set, next);
	CHECK(close(fd) == 0 && wait_for(set) == next);
	memset(text, 0, sizeof text);
	read_all(next, text, 4);
	say("the next connection has another number: %s", text);
	write_all(tell[1], "3", 1);
	forget(id);
	CHECK(waitpid(pid, NULL, 0) == pid && close(listener) == 0 && close(set) == 0 && close(next) == 0);
	CHECK(close(tell[0]) == 0 && close(tell[1]) == 0);
}

// Pipes to and from a process that goes away.
static void pipes(void)
{
	int from[2], to[2];
	char text[16] = "";
	CHECK(pipe(from) == 0 && pipe(to) == 0 && signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		write_all(from[1], "abc", 3);
		CHECK(close(to[1]) == 0 && read(to[0], text, 1) == 0);
		_exit(0);
	}
	CHECK(close(from[1]) == 0 && close(to[0]) == 0);
	int id = checkpoint();
	if (first_time(id)) {
		read_all(from[0], text, 3);
		CHECK(close(from[0]) == 0 && close(to[1]) == 0 && waitpid(pid, NULL, 0) == pid);
		back(id);
	}
	read_all(from[0], text, 3);
	CHECK(read(from[0], text + 4, 1) == 0);
	say("pipe: %s, then the end", text);
	CHECK_ERR(write(to[1], "x", 1), EPIPE);
	say("write end: %s", strerror(EPIPE));
	forget(id);
	CHECK(close(from[0]) == 0 && close(to[1]) == 0);
}

static void own_pipes(void)
{
	int both[2], one[2], listener = socket(AF_UNIX, SOCK_STREAM, 0);
	char text[16] = "";
	CHECK(pipe2(both, O_CLOEXEC) == 0 && pipe2(one, O_NONBLOCK) == 0);
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "listens"};
	CHECK(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 1) == 0);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(close(both[0]) == 0 && close(both[1]) == 0 && close(one[0]) == 0);
		CHECK(close(listener) == 0);
		back(id);
	}
	CHECK(fcntl(both[0], F_GETFD) == FD_CLOEXEC && (fcntl(both[1], F_GETFL) & O_ACCMODE) == O_WRONLY);
	write_all(both[1], "a pipe", 6);
	read_all(both[0], text, 6);
	say("both ends: %s", text);
	CHECK(fcntl(one[0], F_GETFD) == 0);
	CHECK_ERR(read(one[0], text, 1), EAGAIN);
	write_all(one[1], "still here", 10);
	read_all(one[0], text, 10);
	say("one end: %s", text);
	struct pollfd wanted = {.fd = listener, .events = POLLIN};
	CHECK(poll(&wanted, 1, 0) == 0 && accept(listener, NULL, NULL) == -1);
	say("listener: nobody comes");
}

int main(void)
{
	need_session();
	connection();
	pipes();
	own_pipes();
	return 0;
}
