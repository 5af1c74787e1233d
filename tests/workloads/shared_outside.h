// What the two sides of shared_outside.c agree on.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BYTES 150000
#define SOCKET "outsider"

#define CHECK(condition)                                                            \
	do {                                                                        \
		if (!(condition)) {                                                 \
			printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(99);                                                   \
		}                                                                   \
	} while (0)

enum { ATTACH, STORE_SEGMENT, SUM_SEGMENT, OPEN, STORE_FILE, WRITE_FILE, SEND, RECEIVE, STORE_SENT, SUM_SENT };

struct request {
	int what, id, value;
	char name[64];
};

struct answer {
	unsigned sum;
};

static unsigned sum_of(const volatile char *bytes)
{
	unsigned sum = 0;
	for (int i = 0; i < BYTES; i++)
		sum = sum * 31 + (unsigned char)bytes[i];
	return sum;
}

static void send_descriptor(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 1;
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive_descriptor(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	CHECK(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
	int fd;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}
