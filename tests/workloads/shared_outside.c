// Shares memory with outsider.c, in every way there is: a segment of System V, a memfd of each side, POSIX
// shared memory, a file mapped shared and privately, which the other changes by stores and by calls.
#define _GNU_SOURCE
#include "shared_outside.h"

static int outsider;

static unsigned ask(int what, int id, int value, const char *name)
{
	struct request request = {.what = what, .id = id, .value = value};
	struct answer answer;
	strncpy(request.name, name, sizeof request.name - 1);
	CHECK(write(outsider, &request, sizeof request) == sizeof request);
	CHECK(read(outsider, &answer, sizeof answer) == sizeof answer);
	return answer.sum;
}

static void begin(int what)
{
	struct request request = {.what = what};
	CHECK(write(outsider, &request, sizeof request) == sizeof request);
}

static void segment(void)
{
	int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0666);
	char *start = shmat(id, NULL, 0);
	CHECK(start != (void *)-1);
	memset(start, 1, BYTES);
	ask(ATTACH, id, 0, "");
	CHECK(shmctl(id, IPC_RMID, NULL) == 0);
	for (int round = 0; round < 5; round++) {
		ask(STORE_SEGMENT, 0, 10 + round, "");
		printf("segment: %u\n", sum_of(start));
		memset(start, 50 + round, BYTES);
		printf("they see %u\n", ask(SUM_SEGMENT, 0, 0, ""));
	}
}

static void descriptors(void)
{
	begin(SEND);
	char *theirs = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, receive_descriptor(outsider), 0);
	int fd = memfd_create("mine", 0);
	CHECK(ftruncate(fd, BYTES) == 0);
	char *mine = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(theirs != MAP_FAILED && mine != MAP_FAILED);
	printf("theirs: %u\n", sum_of(theirs));
	memset(mine, 3, BYTES);
	begin(RECEIVE);
	send_descriptor(outsider, fd);
	for (int round = 0; round < 5; round++) {
		printf("they see %u\n", ask(SUM_SENT, 0, 0, ""));
		ask(STORE_SENT, 0, 20 + round, "");
		printf("mine: %u\n", sum_of(mine));
		memset(mine, 70 + round, BYTES);
	}
}

// A file of this name, which the other opens when it is mapped here.
static void file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
	CHECK(fd >= 0 && fchmod(fd, 0666) == 0 && ftruncate(fd, BYTES) == 0);
	char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *shown = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	char *private = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(shared != MAP_FAILED && shown != MAP_FAILED && private != MAP_FAILED);
	ask(OPEN, 0, 0, name);
	for (int round = 0; round < 5; round++) {
		ask(round % 2 ? WRITE_FILE : STORE_FILE, 0, 30 + round, "");
		printf("shared %u, shown %u, private %u\n", sum_of(shared), sum_of(shown), sum_of(private));
		memset(shared, 60 + round, BYTES);
	}
	CHECK(unlink(name) == 0);
}

// The same, mapped privately only, and changed by calls.
static void private_file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
	CHECK(fd >= 0 && fchmod(fd, 0666) == 0 && ftruncate(fd, BYTES) == 0);
	char *private = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(private != MAP_FAILED);
	ask(OPEN, 0, 0, name);
	for (int round = 0; round < 4; round++) {
		ask(round % 2 ? STORE_FILE : WRITE_FILE, 0, 40 + round, "");
		printf("private %u\n", sum_of(private));
	}
	CHECK(unlink(name) == 0);
}

int main(void)
{
	struct sockaddr_un place = {AF_UNIX, SOCKET};
	char name[64];
	setvbuf(stdout, NULL, _IOLBF, 0);
	outsider = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(connect(outsider, (void *)&place, sizeof place) == 0);
	segment();
	descriptors();
	snprintf(name, sizeof name, "/dev/shm/retrovane-test-%d", getpid());
	file(name);
	private_file(name);
	file("shared");
	private_file("private");
	return 0;
}
