// A call that opens something may be under way at a checkpoint and have its descriptor already: the
// way back closes that, as the call is made again. Connections that were accepted so are not lost.
// prints: 60 rounds, and no descriptor more
// prints: 60 connections, and each was answered
#include "live.h"
#include <arpa/inet.h>
#include <sys/stat.h>

#define ROUNDS 60
#define OPENERS 4

static volatile int step, opened, answered, closed;
static int listener;
static char path[] = "/tmp/opens-XXXXXX/fifo";

static int count_open(void)
{
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void until_opened(int round)
{
	while (opened < (round + 1) * OPENERS)
		usleep(100);
}

static void *opens(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		while (step < 2 * round + 1)
			usleep(100);
		int fd = open(path, O_RDONLY);
		CHECK(fd >= 0);
		__sync_fetch_and_add(&opened, 1);
		while (step < 2 * round + 2)
			usleep(100);
		CHECK(close(fd) == 0);
		__sync_fetch_and_add(&closed, 1);
	}
	return unused;
}

static void *answers(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		char byte;
		int connection = accept(listener, NULL, NULL);
		CHECK(connection >= 0 && read(connection, &byte, 1) == 1);
		CHECK(write(connection, &byte, 1) == 1 && close(connection) == 0);
		answered = round + 1;
	}
	return unused;
}

static void go_back_once(void)
{
	int id = checkpoint();
	if (first_time(id))
		back(id);
	forget(id);
}

// To the later of two, and to the earlier one when the calls were made again and found other numbers.
static void go_back_twice(int round, int lower)
{
	// The others' calls make their descriptors, and cannot say so yet.
	for (volatile int spin = 0; spin < 1000000; spin++)
		;
	int earlier = checkpoint();
	CHECK(close(lower) == 0);
	int later = checkpoint();
	if (first_time(earlier)) {
		if (first_time(later))
			back(later);
		until_opened(round);
		back(earlier);
	}
	forget(later);
	forget(earlier);
}

int main(void)
{
	need_session();
	pthread_t thread;
	char *slash = strrchr(path, '/');
	*slash = 0;
	CHECK(mkdtemp(path));
	*slash = '/';
	CHECK(mkfifo(path, 0600) == 0);
	int before = count_open();
	pthread_t openers[OPENERS];
	for (int each = 0; each < OPENERS; each++)
		CHECK(pthread_create(&openers[each], NULL, opens, NULL) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		int lower = open("/dev/null", O_RDONLY);
		CHECK(lower >= 0);
		step = 2 * round + 1;
		usleep(1000);
		// Waits for nobody, and the others' calls find what they wait for.
		int fd = open(path, O_RDWR);
		CHECK(fd >= 0);
		if (round % 2) {
			go_back_twice(round, lower);
		} else {
			go_back_once();
			CHECK(close(lower) == 0);
		}
		until_opened(round);
		CHECK(close(fd) == 0);
		step = 2 * round + 2;
		while (closed < (round + 1) * OPENERS)
			usleep(100);
	}
	for (int each = 0; each < OPENERS; each++)
		CHECK(pthread_join(openers[each], NULL) == 0);
	CHECK(unlink(path) == 0);
	*slash = 0;
	CHECK(rmdir(path) == 0 && count_open() == before);
	say("%d rounds, and no descriptor more", ROUNDS);

	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 8) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
	before = count_open();
	CHECK(pthread_create(&thread, NULL, answers, NULL) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		char byte = 'a';
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0);
		go_back_once();
		CHECK(write(fd, &byte, 1) == 1 && read(fd, &byte, 1) == 1 && byte == 'a');
		while (answered <= round)
			usleep(100);
		CHECK(close(fd) == 0);
	}
	CHECK(pthread_join(thread, NULL) == 0 && count_open() == before);
	say("%d connections, and each was answered", ROUNDS);
	return 0;
}
