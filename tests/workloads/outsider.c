// A process outside of the recording that shares memory with one that is recorded: it does what it is
// asked for over a socket in its directory, for one client, and ends.
#define _GNU_SOURCE
#include "shared_outside.h"

static char content[BYTES];

static void store(char *to, char value)
{
	memset(to, value, BYTES);
}

static char *map(int fd)
{
	char *start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(start != MAP_FAILED);
	return start;
}

static void send_memfd(int client)
{
	int fd = memfd_create("theirs", 0);
	CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
	store(map(fd), 77);
	send_descriptor(client, fd);
}

int main(void)
{
	struct sockaddr_un place = {AF_UNIX, SOCKET};
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	alarm(120);
	CHECK(bind(listener, (void *)&place, sizeof place) == 0 && chmod(SOCKET, 0666) == 0 && listen(listener, 1) == 0);
	int client = accept(listener, NULL, NULL);
	char *segment = NULL, *file = NULL, *sent = NULL;
	int fd = -1;
	struct request request;
	while (read(client, &request, sizeof request) == sizeof request) {
		struct answer answer = {0};
		switch (request.what) {
		case ATTACH: segment = shmat(request.id, NULL, 0); break;
		case STORE_SEGMENT: store(segment, request.value); break;
		case SUM_SEGMENT: answer.sum = sum_of(segment); break;
		case OPEN: file = map(fd = open(request.name, O_RDWR)); break;
		case STORE_FILE: store(file, request.value); break;
		case WRITE_FILE:
			memset(content, request.value, BYTES);
			CHECK(pwrite(fd, content, BYTES, 0) == BYTES);
			break;
		case SEND: send_memfd(client); continue;
		case RECEIVE: sent = map(receive_descriptor(client)); continue;
		case STORE_SENT: store(sent, request.value); break;
		case SUM_SENT: answer.sum = sum_of(sent); break;
		}
		CHECK(write(client, &answer, sizeof answer) == sizeof answer);
	}
	return 0;
}
