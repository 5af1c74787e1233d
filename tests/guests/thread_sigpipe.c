// SIGPIPE comes to the thread that writes, not to another.
// covers: write sendto
#include "threads.h"
#include <sys/socket.h>

static __thread volatile int broken_here;
static volatile int broken;

static void on_pipe(int number)
{
	(void)number;
	broken_here++;
	broken++;
}

static void *write_to_nobody(void *argument)
{
	int ends[2], sockets[2];
	CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && close(sockets[0]) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK_ERR(write(ends[1], "x", 1), EPIPE);
		CHECK_ERR(send(sockets[1], "x", 1, 0), EPIPE);
		CHECK_ERR(send(sockets[1], "x", 1, MSG_NOSIGNAL), EPIPE);
	}
	CHECK(close(ends[1]) == 0 && close(sockets[1]) == 0 && argument == NULL);
	return (void *)(long)broken_here;
}

int main(void)
{
	handle(SIGPIPE, on_pipe, 0);
	for (int i = 0; i < 5; i++)
		say("signals in the thread: %ld", join(start(write_to_nobody, NULL)));
	say("in the main thread %d, in all %d", broken_here, broken);
	pid_t child = fork();
	if (child == 0) {
		handle(SIGPIPE, SIG_DFL, 0);
		start(write_to_nobody, NULL);
		for (;;)
			pause();
	}
	reap("unhandled", child);
	return 0;
}
