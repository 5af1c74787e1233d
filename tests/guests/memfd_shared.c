// Memory of a memfd, mapped by a parent and by a child that has it through a socket.
// covers: memfd_create ftruncate mmap futex
#include "threads.h"
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>

struct shared {
	atomic_int ball;
	uint64_t state;
	unsigned char bytes[100000];
};

static struct shared *map(int fd)
{
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED);
	return shared;
}

static void play(struct shared *shared, int me)
{
	for (int i = 0; i < 50; i++) {
		while (atomic_load(&shared->ball) != me)
			syscall(SYS_futex, &shared->ball, FUTEX_WAIT, !me, NULL, NULL, 0);
		shared->state = compute(shared->state + (uint64_t)me, 5);
		memset(shared->bytes + i * 2000, (int)shared->state, 2000);
		atomic_store(&shared->ball, !me);
		syscall(SYS_futex, &shared->ball, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static void send_fd(int socket, int fd)
{
	union control control = {{0}};
	struct iovec vector = {"f", 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = sizeof control};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*header = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive_fd(int socket)
{
	union control control;
	char byte;
	int fd;
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes,
				 .msg_controllen = sizeof control};
	CHECK(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

int main(void)
{
	int sockets[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	// The child is made first: nothing of the memory is inherited.
	pid_t child = fork();
	if (child == 0) {
		play(map(receive_fd(sockets[1])), 1);
		_exit(0);
	}
	int fd = memfd_create("shared", MFD_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
	struct shared *shared = map(fd), *second = map(fd);
	send_fd(sockets[0], fd);
	play(shared, 0);
	reap("child", child);
	say("state %llx, bytes %llx", (unsigned long long)shared->state,
	    (unsigned long long)hash_bytes(shared->bytes, sizeof shared->bytes));
	// The same memory at another address, and by a call on the descriptor.
	uint64_t state;
	CHECK(second != shared && second->state == shared->state);
	CHECK(pread(fd, &state, sizeof state, offsetof(struct shared, state)) == sizeof state);
	CHECK(state == shared->state);
	state = 5;
	CHECK(pwrite(fd, &state, sizeof state, offsetof(struct shared, state)) == sizeof state);
	say("written by a call: %d", shared->state == 5 && second->state == 5);
	return 0;
}
