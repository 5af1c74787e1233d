// Processes that share one file already come to share others at the same time, and store there at
// once: whoever maps one first does so before the others.
// covers: mmap exit_group
#include "threads.h"
#include <sys/mman.h>

#define PROCESSES 4
#define FILES 40

// Runs after an exec: it shares by its mappings alone.
static atomic_int *map_file(int number)
{
	char name[32];
	snprintf(name, sizeof name, "shared%d", number);
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
	atomic_int *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(words != MAP_FAILED && close(fd) == 0);
	return words;
}

static int share_files(void)
{
	atomic_int *gate = map_file(0);
	atomic_int *words[FILES];
	int order = 0;
	for (int i = 1; i < FILES; i++) {
		atomic_fetch_add(&gate[i], 1);
		while (atomic_load(&gate[i]) < PROCESSES)
			sched_yield();
		words[i] = map_file(i);
		order = order * 7 + atomic_fetch_add(words[i], 1);
		words[i][1] = order;
	}
	nondet("order %x", (unsigned)order);
	return 0;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc == 2)
		return share_files();
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			execl("/proc/self/exe", "guest", "x", NULL);
			_exit(126);
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		int status;
		CHECK(wait(&status) > 0 && status == 0);
	}
	long sum = 0;
	for (int i = 1; i < FILES; i++)
		sum += *map_file(i);
	say("%ld", sum);
	return 0;
}
