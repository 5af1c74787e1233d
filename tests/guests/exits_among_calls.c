// Processes that map one file, and end one after the other while their threads make calls.
// covers: exit_group mmap
#include "threads.h"
#include <sys/mman.h>

#define PROCESSES 60
#define AT_ONCE 3
#define THREADS 4

struct shared {
	atomic_int calls, ends;
};

static struct shared *map_file(void)
{
	int fd = open("mapped", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED && close(fd) == 0);
	return shared;
}

static atomic_int begun;

static void *call(void *shared)
{
	int own[2];
	char byte = 'c';
	CHECK(pipe(own) == 0);
	atomic_fetch_add(&begun, 1);
	for (;;) {
		CHECK(write(own[1], &byte, 1) == 1 && read(own[0], &byte, 1) == 1);
		sched_yield();
		atomic_fetch_add(&((struct shared *)shared)->calls, 1);
	}
	return NULL;
}

// Runs after an exec, so that it comes to share by its mapping alone.
static int end_among_calls(void)
{
	struct shared *shared = map_file();
	for (int i = 0; i < THREADS; i++)
		start(call, shared);
	while (atomic_load(&begun) < THREADS)
		usleep(100);
	int end = atomic_fetch_add(&shared->ends, 1);
	exit(end % 7);
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc == 2)
		return end_among_calls();
	int made = 0, alive = 0, codes[7] = { 0 };
	while (made < PROCESSES || alive > 0) {
		if (made < PROCESSES && alive < AT_ONCE) {
			pid_t pid = fork();
			CHECK(pid >= 0);
			if (pid == 0) {
				execl("/proc/self/exe", "guest", "x", NULL);
				_exit(126);
			}
			made++;
			alive++;
			continue;
		}
		int status;
		CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) < 7);
		codes[WEXITSTATUS(status)]++;
		alive--;
	}
	for (int i = 0; i < 7; i++)
		say("%d ended with %d", codes[i], i);
	struct shared *shared = map_file();
	say("%d ends", atomic_load(&shared->ends));
	nondet("%d calls", atomic_load(&shared->calls));
	return 0;
}
