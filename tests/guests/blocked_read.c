// Threads blocked in read, readv and write on pipes while another computes.
// covers: read readv write pread64 pipe2
#include "threads.h"
#include <sys/uio.h>

static int pipe_ends[2], full[2];
static atomic_int here;

static void *in_read(void *buffer)
{
	announce(&here);
	return (void *)read(pipe_ends[0], buffer, 64);
}

static void *in_readv(void *buffer)
{
	struct iovec vectors[3] = {{buffer, 3}, {(char *)buffer + 16, 4}, {(char *)buffer + 32, 30}};
	announce(&here);
	return (void *)readv(pipe_ends[0], vectors, 3);
}

static void *in_write(void *buffer)
{
	announce(&here);
	return (void *)write(full[1], buffer, 4096);
}

static void fill(void)
{
	static char block[4096];
	CHECK(fcntl(full[1], F_SETFL, O_NONBLOCK) == 0);
	while (write(full[1], block, sizeof block) > 0)
		;
	CHECK(errno == EAGAIN && fcntl(full[1], F_SETFL, 0) == 0);
}

static pthread_t begin(void *(*body)(void *), void *buffer)
{
	atomic_store(&here, 0);
	pthread_t thread = start(body, buffer);
	until_asleep(&here);
	nondet("meanwhile %llx", (unsigned long long)compute((uint64_t)now_ns(), 200000));
	say("meanwhile %llx", (unsigned long long)compute(1, 200000));
	return thread;
}

int main(void)
{
	static char buffer[4096], drained[1 << 16];
	CHECK(pipe(pipe_ends) == 0 && pipe2(full, O_CLOEXEC) == 0);
	for (int i = 0; i < 3; i++) {
		pthread_t thread = begin(in_read, buffer);
		CHECK(buffer[0] == 0);
		CHECK(write(pipe_ends[1], "for the reader", 15) == 15);
		long got = join(thread);
		say("read %ld: %s", got, buffer);
		memset(buffer, 0, sizeof buffer);

		thread = begin(in_readv, buffer);
		CHECK(buffer[0] == 0);
		CHECK(write(pipe_ends[1], "abcdefghijkl", 13) == 13);
		got = join(thread);
		say("readv %ld: %s %s %s", got, buffer, buffer + 16, buffer + 32);
		memset(buffer, 0, sizeof buffer);
	}
	fill();
	pthread_t thread = begin(in_write, buffer);
	CHECK(read(full[0], drained, sizeof drained) > 0);
	say("write %ld", join(thread));
	thread = begin(in_read, buffer);
	CHECK(close(pipe_ends[1]) == 0);
	say("read at the end %ld", join(thread));
	return 0;
}
