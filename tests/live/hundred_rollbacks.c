// A hundred rollbacks to one checkpoint, with threads at work, others made and ended,
// memory mapped and files opened each time; nothing of it adds up.
// prints: a hundred times
// prints: as few mappings, threads and descriptors as before
#include "live.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long steps;
static atomic_int stop;

static void *work(void *argument)
{
	while (!atomic_load(&stop)) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		steps++;
		CHECK(pthread_mutex_unlock(&lock) == 0);
		sched_yield();
	}
	return argument;
}

static void *end(void *argument)
{
	free(malloc(1000));
	return argument;
}

static int count_mappings(void)
{
	char text[8192];
	int fd = open("/proc/self/maps", O_RDONLY), count = 0;
	CHECK(fd >= 0);
	for (ssize_t length; (length = read(fd, text, sizeof text)) > 0;)
		for (ssize_t i = 0; i < length; i++)
			count += text[i] == '\n';
	CHECK(close(fd) == 0);
	return count;
}

int main(void)
{
	need_session();
	pthread_t workers[3];
	for (int i = 0; i < 3; i++)
		workers[i] = start(work, NULL);
	// Each thread has its memory, and what is made at the first use is made.
	for (int i = 0; i < 3; i++)
		join(start(end, NULL));
	// The kernel forgets a thread some time after its end.
	usleep(100000);
	int threads = count_threads();
	int lowest = dup(0);
	CHECK(lowest >= 0 && close(lowest) == 0);
	int id = checkpoint();
	int count = rv_rollbacks(id);
	// How many there were the first time is kept outside of memory.
	int file = open("mappings", O_RDWR | O_CREAT, 0600), before;
	CHECK(file == lowest);
	if (count == 0) {
		before = count_mappings();
		CHECK(pwrite(file, &before, sizeof before, 0) == sizeof before);
	}
	if (count < 100) {
		pthread_t two[2] = {start(end, NULL), start(work, NULL)};
		join(two[0]);
		memset(map(20 * PAGE), 1, 20 * PAGE);
		CHECK(open("/dev/null", O_RDONLY) > file);
		back(id);
	}
	say("a hundred times");
	until_threads(threads, 0);
	CHECK(pread(file, &before, sizeof before, 0) == sizeof before);
	CHECK(count_mappings() <= before + 4);
	say("as few mappings, threads and descriptors as before");
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		join(workers[i]);
	return 0;
}
