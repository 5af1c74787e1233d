// A process is killed while it maps a file that another one, which computes, has mapped: it
// was about to share the other's turn. Who maps the file next is not kept from it.
// covers: mmap kill
#include "threads.h"
#include <sys/mman.h>

#define ROUNDS 20
#define FILE_BYTES 4096

static atomic_int *map_file(void)
{
	int fd = open("mapped", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	atomic_int *word = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(word != MAP_FAILED && close(fd) == 0);
	return word;
}

// Computes from when it has mapped the file, which the pipe says, until it is killed.
_Noreturn static void be_owner(int mapped)
{
	atomic_int *word = map_file();
	CHECK(write(mapped, "m", 1) == 1);
	for (uint64_t seed = 1;; seed++)
		atomic_store(word, (int)compute(seed, 100000));
}

static void be_joiner(int begins)
{
	CHECK(write(begins, "b", 1) == 1);
	map_file();
	pause();
}

static pid_t begin(void (*body)(int), int ends[2])
{
	char byte;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		body(ends[1]);
		_exit(3);
	}
	CHECK(read(ends[0], &byte, 1) == 1);
	return child;
}

static void end(pid_t child)
{
	int status;
	CHECK(kill(child, SIGKILL) == 0);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
	int ends[2];
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid_t owner = begin(be_owner, ends);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t joiner = begin(be_joiner, ends);
		CHECK(usleep((useconds_t)i * 200) == 0);
		end(joiner);
	}
	end(owner);
	pid_t late = fork();
	if (late == 0) {
		map_file();
		_exit(4);
	}
	reap("late", late);
	return 0;
}
