// Processes of several threads map the file that others have mapped, while their other threads
// wait to run, and end at once. Those threads waited for a turn that the process has no more:
// who goes on must not count them, or one that waits for another to stop computing waits for ever.
// covers: mmap exit_group
#include "threads.h"
#include <sys/mman.h>

#define PROCESSES 40
#define THREADS 6

static atomic_long *map_file(void)
{
	int fd = open("mapped", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
	atomic_long *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(word != MAP_FAILED && close(fd) == 0);
	return word;
}

static atomic_int begun, is_set;

// Comes back from the kernel all the time, and waits to run.
static void *come_back(void *unused)
{
	struct timespec soon = {0, 1000};
	atomic_fetch_add(&begun, 1);
	for (;;)
		nanosleep(&soon, NULL);
	return unused;
}

// Runs after an exec: no memory is shared yet.
static int short_life(void)
{
	for (int i = 0; i < THREADS; i++)
		start(come_back, NULL);
	while (atomic_load(&begun) < THREADS)
		usleep(50);
	compute(1, 300000);
	atomic_fetch_add(map_file(), 1);
	_exit(0);
}

static void *set(void *unused)
{
	usleep(1000);
	atomic_store(&is_set, 1);
	return unused;
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return short_life();
	atomic_long *lives = map_file();
	atomic_store(lives, 0);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			execl("/proc/self/exe", "guest", argv[0], NULL);
			_exit(126);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	say("%ld lives", atomic_load(lives));
	pthread_t thread = start(set, NULL);
	while (atomic_load(&is_set) == 0)
		;
	join(thread);
	say("set");
	return 0;
}
