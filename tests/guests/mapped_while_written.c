// A process maps a file again and again while another one, which shares memory with it, writes to
// it by calls: what each mapping shows is what replay shows. A third one, which shares no memory,
// writes to another page of the file.
// covers: mmap pwrite64 munmap
#include "guest.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { FILE_BYTES = 9000, ROUNDS = 1500 };

static pid_t start_writer(int fd, long at, volatile int *until)
{
	pid_t writer = fork();
	CHECK(writer >= 0);
	if (writer != 0)
		return writer;
	// One that shares nothing goes on for as long as it likes.
	for (int round = 0; until ? *until == 0 : round < ROUNDS; round++)
		CHECK(pwrite(fd, &round, sizeof round, at) == sizeof round);
	_exit(0);
}

static void wait_for(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	static char bytes[FILE_BYTES];
	int fd = open("shown", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes);
	int shown = open("shown", O_RDONLY | O_CLOEXEC);
	CHECK(shown >= 0);
	pid_t alone = start_writer(fd, 4096, NULL);
	volatile int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(done != MAP_FAILED);
	pid_t together = start_writer(fd, 0, done);
	unsigned sum = 0;
	for (int round = 0; round < ROUNDS; round++) {
		int how = round % 2 ? MAP_SHARED : MAP_PRIVATE;
		const volatile int *words = mmap(NULL, FILE_BYTES, PROT_READ, how, shown, 0);
		CHECK(words != MAP_FAILED);
		sum = sum * 31 + (unsigned)words[0];
		CHECK(munmap((void *)words, FILE_BYTES) == 0);
	}
	*done = 1;
	wait_for(together);
	wait_for(alone);
	nondet("%x", sum);
	return 0;
}
