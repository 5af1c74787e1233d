// Processes with threads map several files in different orders, so that their lanes come
// together while others end, execute a program, or are killed.
// covers: mmap exit_group execve kill
#include "threads.h"
#include <sys/mman.h>

#define FILES 4
#define PROCESSES 40
#define AT_ONCE 4
#define THREADS 3
#define ENOUGH 20

struct shared {
	atomic_int calls, begun;
};

static struct shared *map_file(int number)
{
	char name[16];
	snprintf(name, sizeof name, "mapped%d", number);
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED && close(fd) == 0);
	return shared;
}

static struct shared *files[FILES];
static atomic_int calls;

static void *call(void *number)
{
	int own[2];
	char byte = 'c';
	CHECK(pipe(own) == 0);
	for (long i = (long)number;; i++) {
		CHECK(write(own[1], &byte, 1) == 1 && read(own[0], &byte, 1) == 1);
		struct shared *shared = files[i % FILES];
		if (shared != NULL)
			atomic_fetch_add(&shared->calls, 1);
		atomic_fetch_add(&calls, 1);
	}
	return NULL;
}

// Runs after an exec: maps the files one by one, from another one each.
static int share(int number)
{
	for (long i = 0; i < THREADS; i++)
		start(call, (void *)i);
	for (int i = 0; i < FILES; i++) {
		int file = (number * 3 + i * (number % 2 ? 1 : 3)) % FILES;
		files[file] = map_file(file);
		int seen = atomic_load(&calls);
		while (atomic_load(&calls) < seen + ENOUGH)
			usleep(50);
	}
	atomic_fetch_add(&files[0]->begun, 1);
	if (number % 3 == 1)
		execl("/bin/sh", "sh", "-c", "exit 1", NULL);
	while (number % 3 == 2)
		pause();
	exit(0);
}

static pid_t make(int number)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		char text[16];
		snprintf(text, sizeof text, "%d", number);
		execl("/proc/self/exe", "guest", text, NULL);
		_exit(126);
	}
	return pid;
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return share(atoi(argv[1]));
	struct shared *first = map_file(0);
	int codes[2] = { 0 }, killed = 0;
	for (int made = 0; made < PROCESSES; made += AT_ONCE) {
		pid_t pids[AT_ONCE];
		for (int i = 0; i < AT_ONCE; i++)
			pids[i] = make(made + i);
		while (atomic_load(&first->begun) < made + AT_ONCE)
			usleep(100);
		for (int i = 0; i < AT_ONCE; i++) {
			int status;
			if ((made + i) % 3 == 2)
				CHECK(kill(pids[i], SIGKILL) == 0);
			CHECK(waitpid(pids[i], &status, 0) == pids[i]);
			if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
				killed++;
			else if (WIFEXITED(status) && WEXITSTATUS(status) < 2)
				codes[WEXITSTATUS(status)]++;
		}
	}
	say("%d ended, %d after an exec, %d were killed", codes[0], codes[1], killed);
	for (int i = 0; i < FILES; i++)
		nondet("%d calls", atomic_load(&map_file(i)->calls));
	return 0;
}
