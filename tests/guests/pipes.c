// Pipes between processes: ping-pong, end of file, full pipes, non-blocking ends, FIFOs.
// covers: pipe pipe2
#include "guest.h"

static void ping_pong(void)
{
	int to[2], from[2];
	CHECK(syscall(SYS_pipe, to) == 0 && pipe2(from, O_CLOEXEC) == 0);
	pid_t child = fork();
	if (child == 0) {
		int value;
		close(to[1]);
		while (read(to[0], &value, sizeof value) == sizeof value) {
			value = value * 3 + 1;
			CHECK(write(from[1], &value, sizeof value) == sizeof value);
		}
		_exit(7);
	}
	close(to[0]);
	unsigned sum = 0;
	for (int i = 0; i < 2000; i++) {
		int answer;
		CHECK(write(to[1], &i, sizeof i) == sizeof i);
		CHECK(read(from[0], &answer, sizeof answer) == sizeof answer);
		sum = sum * 31 + answer;
	}
	close(to[1]);
	say("sum %u", sum);
	reap("ponger", child);
	close(from[0]);
	close(from[1]);
}

static void full_pipe(void)
{
	int p[2];
	char block[4096] = {0};
	long total = 0;
	CHECK(pipe2(p, O_NONBLOCK) == 0);
	CHECK_ERR(read(p[0], block, 1), EAGAIN);
	while (write(p[1], block, sizeof block) > 0)
		total += sizeof block;
	CHECK(errno == EAGAIN);
	say("pipe holds %ld", total);
	CHECK(read(p[0], block, 100) == 100);
	close(p[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK_ERR(write(p[1], block, 1), EPIPE);
	close(p[1]);
}

// The writer writes more than the pipe holds: both ends block in turn.
static void large_stream(void)
{
	int p[2];
	static char block[70001];
	CHECK(pipe(p) == 0);
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 20; i++) {
			memset(block, 'a' + i, sizeof block);
			CHECK(write(p[1], block, sizeof block) == sizeof block);
		}
		_exit(0);
	}
	close(p[1]);
	uint64_t hash = 0;
	long total = 0;
	ssize_t got;
	while ((got = read(p[0], block, 5000)) > 0) {
		nondet("piece %zd", got);
		for (ssize_t i = 0; i < got; i++)
			hash = hash * 31 + block[i];
		total += got;
	}
	say("stream %ld hash %llx", total, (unsigned long long)hash);
	reap("streamer", child);
	close(p[0]);
}

static void fifo(void)
{
	CHECK(mkfifo("fifo", 0600) == 0);
	CHECK_ERR(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO);
	pid_t child = fork();
	if (child == 0) {
		int fd = open("fifo", O_WRONLY);
		CHECK(write(fd, "through the fifo", 16) == 16);
		_exit(0);
	}
	int fd = open("fifo", O_RDONLY);
	char text[32] = "";
	int at = 0;
	ssize_t got;
	while ((got = read(fd, text + at, sizeof text - at)) > 0)
		at += got;
	say("fifo: %.*s", at, text);
	reap("fifo writer", child);
}

int main(void)
{
	ping_pong();
	full_pipe();
	large_stream();
	fifo();
	CHECK_ERR(pipe2(BAD, 0), EFAULT);
	CHECK_ERR(pipe2(BAD, 12345), EINVAL);
	return 0;
}
