// A file that one process maps privately, and another changes through a shared mapping.
// covers: mmap memfd_create
#include "guest.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGES 4
#define ROUNDS 6

static void ask(int to, int from)
{
	char answer;
	CHECK(write(to, "x", 1) == 1);
	CHECK(read(from, &answer, 1) == 1);
}

// Stores another number to each page whenever it is asked.
static void store(int fd, int from, int to)
{
	volatile int *view = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(view != MAP_FAILED);
	char asked;
	for (int round = 1; read(from, &asked, 1) == 1; round++) {
		for (int page = 0; page < PAGES; page++)
			view[page * 1024] = round * 100 + page;
		CHECK(write(to, "k", 1) == 1);
	}
	_exit(0);
}

static void show(const char *name, volatile const int *view)
{
	say("%s: %d %d %d %d", name, view[0], view[1024], view[2048], view[3072]);
}

int main(void)
{
	int fd = memfd_create("desk", 0), asks[2], answers[2];
	CHECK(fd >= 0 && ftruncate(fd, PAGES * 4096) == 0);
	CHECK(pipe(asks) == 0 && pipe(answers) == 0);
	// Mapped before anybody can store there.
	volatile int *first = mmap(NULL, PAGES * 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(first != MAP_FAILED);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(close(asks[1]) == 0);
		store(fd, asks[0], answers[1]);
	}
	ask(asks[1], answers[0]);
	show("mapped first", first);
	// Mapped when something was stored.
	volatile int *late = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(late != MAP_FAILED);
	show("mapped late", late);
	// This page is its own from here on.
	late[1024] = -1;
	for (int round = 0; round < ROUNDS; round++) {
		ask(asks[1], answers[0]);
		show("first", first);
		show("late", late);
	}
	CHECK(close(asks[1]) == 0);
	CHECK(waitpid(child, NULL, 0) == child);
	return 0;
}
