// Two threads that hand a block over by calls that order what comes before and behind them, each kind in
// its round: `race` has nothing to say of it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "../guests/threads.h"

enum { MESSAGE, SEMAPHORE, SENDFILE, PWRITEV, PWRITEV2, COPY, KINDS };

struct note {
	long type;
	char byte;
};

static int queue, semaphore, file, copied, pipes[KINDS][2];
static long blocks[KINDS];

GUEST_FN void pass(int kind)
{
	struct note note = { 1, 'n' };
	struct sembuf up = { 0, 1, 0 };
	struct iovec bytes = { &note.byte, 1 };
	off_t begin = 0;
	switch (kind) {
	case MESSAGE:
		CHECK(msgsnd(queue, &note, 1, 0) == 0);
		break;
	case SEMAPHORE:
		CHECK(semop(semaphore, &up, 1) == 0);
		break;
	case SENDFILE:
		CHECK(sendfile(pipes[kind][1], file, &begin, 1) == 1);
		break;
	case PWRITEV:
		CHECK(pwritev(file, &bytes, 1, 1) == 1);
		break;
	case PWRITEV2:
		CHECK(pwritev2(pipes[kind][1], &bytes, 1, -1, 0) == 1);
		break;
	case COPY:
		CHECK(copy_file_range(file, &begin, copied, NULL, 1, 0) == 1);
		break;
	}
}

// The byte of the file at this place: 0 while it has none.
GUEST_FN char byte_of(int descriptor, off_t place)
{
	char byte = 0;
	CHECK(pread(descriptor, &byte, 1, place) >= 0);
	return byte;
}

GUEST_FN void take(int kind)
{
	struct note note;
	struct sembuf down = { 0, -1, 0 };
	struct timespec most = { 60, 0 };
	char byte;
	switch (kind) {
	case MESSAGE:
		CHECK(msgrcv(queue, &note, 1, 1, 0) == 1);
		break;
	case SEMAPHORE:
		CHECK(semtimedop(semaphore, &down, 1, &most) == 0);
		break;
	case SENDFILE:
	case PWRITEV2:
		CHECK(read(pipes[kind][0], &byte, 1) == 1);
		break;
	case PWRITEV:
		while (byte_of(file, 1) == 0)
			sched_yield();
		break;
	case COPY:
		while (byte_of(copied, 0) == 0)
			sched_yield();
		break;
	}
}

static void *take_over(void *unused)
{
	for (int kind = 0; kind < KINDS; kind++) {
		take(kind);
		blocks[kind]++;
	}
	return unused;
}

int main(void)
{
	queue = msgget(IPC_PRIVATE, 0600);
	semaphore = semget(IPC_PRIVATE, 1, 0600);
	file = memfd_create("file", 0);
	copied = memfd_create("copied", 0);
	CHECK(queue >= 0 && semaphore >= 0 && file >= 0 && copied >= 0);
	CHECK(write(file, "f", 1) == 1);
	for (int kind = 0; kind < KINDS; kind++)
		CHECK(pipe(pipes[kind]) == 0);
	pthread_t thread = start(take_over, NULL);
	for (int kind = 0; kind < KINDS; kind++) {
		blocks[kind] = kind;
		pass(kind);
	}
	join(thread);
	CHECK(msgctl(queue, IPC_RMID, NULL) == 0 && semctl(semaphore, 0, IPC_RMID) == 0);
	say("fine");
	return 0;
}
