// Calls that fail at an address, having written at others before, or up to there.
// covers: getresuid select move_pages recvmsg getdents64 readv poll getcpu wait4 mincore
#include "guest.h"
#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PAGE 4096ul

static char *edge; // so many bytes before it are there, and none behind

static void show(const char *what, long result, const void *memory, size_t bytes)
{
	int error = result < 0 ? errno : 0;
	unsigned sum = 0;
	for (size_t i = 0; i < bytes; i++)
		sum = sum * 31 + ((const unsigned char *)memory)[i];
	nondet("%s: %ld %d, memory %08x", what, result, error, sum);
}

int main(void)
{
	char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED && munmap(pages + 2 * PAGE, 2 * PAGE) == 0);
	edge = pages + 2 * PAGE;
	memset(pages, 0xee, 2 * PAGE);
	uid_t ids[3] = { 7, 7, 7 };
	show("ids", syscall(SYS_getresuid, &ids[0], edge, &ids[2]), ids, sizeof ids);
	show("half a structure", syscall(SYS_getrusage, RUSAGE_SELF, edge - 40), edge - 64, 64);
	show("a name", syscall(SYS_uname, edge - 100), edge - 128, 128);
	int ends[2];
	CHECK(pipe(ends) == 0 && write(ends[1], "some input for all", 18) == 18);
	fd_set in, out;
	FD_ZERO(&in);
	FD_SET(ends[0], &in);
	FD_SET(ends[1], &in);
	FD_ZERO(&out);
	show("sets", syscall(SYS_select, 10, &in, edge - 4, NULL, NULL), &in, sizeof in);
	struct iovec vectors[2] = { { edge - 32, 5 }, { edge, 5 } };
	show("vectors", readv(ends[0], vectors, 2), edge - 32, 32);
	vectors[0] = (struct iovec){ edge - 3, 8 };
	show("over the edge", readv(ends[0], vectors, 1), edge - 32, 32);
	struct pollfd *polled = (struct pollfd *)(edge - 8);
	*polled = (struct pollfd){ ends[1], POLLOUT, 0 };
	show("polled", poll(polled, 2, 0), polled, 8);
	int pair[2], passed = 0;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[1], "message", 7) == 7);
	char data[16] = "";
	struct iovec data_vector = { data, sizeof data };
	struct msghdr message = { .msg_name = edge, .msg_namelen = 20, .msg_iov = &data_vector,
				  .msg_iovlen = 1, .msg_control = edge, .msg_controllen = 64 };
	show("message", recvmsg(pair[0], &message, 0), data, sizeof data);
	(void)passed;
	void *asked[3] = { pages, pages + PAGE, edge };
	int status[3] = { 77, 77, 77 };
	show("where pages are", syscall(SYS_move_pages, 0, 3, asked, NULL, status, 0), status, sizeof status);
	show("up to a bad list", syscall(SYS_move_pages, 0, 1000, edge - 16, NULL, status, 0), status,
	     sizeof status);
	int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0);
	show("a list over the edge", syscall(SYS_getdents64, dir, edge - 60, 4096), edge - 64, 64);
	unsigned cpu = 99;
	show("processor", syscall(SYS_getcpu, &cpu, edge, NULL), &cpu, sizeof cpu);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(5);
	int ended = 77;
	show("waited", syscall(SYS_wait4, child, &ended, 0, edge - 8), &ended, sizeof ended);
	say("done");
	return 0;
}
