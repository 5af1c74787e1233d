/* A parent and its children write by turns to many pages that they share, and change how these are
 * mapped: what the debugger shows of them is the same on all ways. At its end each makes a process
 * in its own memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 2, ROUNDS = 10, PAGES = 64, PAGE = 4096, FILE_PAGES = 8 };

struct common {
	int turn;
	unsigned seed;
	char pages[PAGES][PAGE];
};

extern char **environ;
static struct common *common;
/* A file, mapped twice, and how long it is. */
static char *file, *file_again;
static long file_bytes = PAGE;
static int file_fd, named_fd;
/* Another one, which is mapped now and then. */
static char *named;
static char stack[65536] __attribute__((aligned(16)));

static unsigned drawn(unsigned below)
{
	common->seed = common->seed * 1103515245 + 12345;
	return (common->seed >> 8) % below;
}

static void stands(int round, int last)
{
	__asm__ volatile("" : : "r"(round), "r"(last));
}

static char *map(int fd, long bytes)
{
	return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void change(int me, int round)
{
	file_bytes = lseek(file_fd, 0, SEEK_END);
	for (int change = 0; change < 30; change++)
		common->pages[drawn(PAGES)][drawn(PAGE)] += 1 + me;
	file[drawn(file_bytes)]++;
	file_again[drawn(file_bytes)]++;
	if (round % 3 == me) {
		char *view = map(named_fd, 2 * PAGE);
		view[drawn(2 * PAGE)] += 3;
		if (named)
			munmap(named, 2 * PAGE);
		named = round % 2 ? view : NULL;
		if (!named)
			munmap(view, 2 * PAGE);
	}
	if (round == 2 && me == 1)
		ftruncate(file_fd, FILE_PAGES * PAGE);
	if (round == 4 && me == 2)
		madvise(file, PAGE, MADV_REMOVE);
	if (round == 5 && me == 1)
		file = mremap(file, FILE_PAGES * PAGE, FILE_PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			      mmap(0, FILE_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	if (round == 6 && me == 2) {
		ftruncate(file_fd, PAGE);
		ftruncate(file_fd, 4 * PAGE);
	}
	if (round == 7 && me == 0)
		madvise(common->pages, PAGES * PAGE / 2, MADV_DONTNEED);
	if (round == 8) {
		char word[] = "written";
		pwrite(file_fd, word, sizeof word, 100 * (me + 1));
	}
	if (round == 3 || round == 8) {
		char *arguments[] = { "true", NULL };
		pid_t child;
		if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0)
			waitpid(child, NULL, 0);
	}
	file_bytes = lseek(file_fd, 0, SEEK_END);
}

static int nothing(void *argument)
{
	(void)argument;
	_exit(0);
}

static void take_part(int me)
{
	for (int round = 0; round < ROUNDS; round++) {
		while (__atomic_load_n(&common->turn, __ATOMIC_ACQUIRE) != me)
			sched_yield();
		file_bytes = lseek(file_fd, 0, SEEK_END);
		stands(round, 0);
		change(me, round);
		stands(round, round == ROUNDS - 1);
		__atomic_store_n(&common->turn, (me + 1) % (CHILDREN + 1), __ATOMIC_RELEASE);
	}
	waitpid(clone(nothing, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL), NULL, 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	char name[64];
	pid_t children[CHILDREN];
	common = mmap(0, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	file_fd = memfd_create("file", 0);
	ftruncate(file_fd, file_bytes);
	file = map(file_fd, FILE_PAGES * PAGE);
	file_again = map(file_fd, FILE_PAGES * PAGE);
	snprintf(name, sizeof name, "/group-pages-%d", getpid());
	named_fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	shm_unlink(name);
	ftruncate(named_fd, 2 * PAGE);
	for (int child = 1; child <= CHILDREN; child++) {
		children[child - 1] = fork();
		if (children[child - 1] == 0) {
			take_part(child);
			_exit(0);
		}
		printf("%d\n", children[child - 1]);
	}
	take_part(0);
	for (int child = 1; child <= CHILDREN; child++)
		wait(NULL);
	return 0;
}
