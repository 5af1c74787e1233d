// Threads that wait for file locks of open file descriptions: flock and F_OFD_SETLKW.
// covers: flock fcntl
#include "threads.h"
#include <sys/file.h>

static atomic_int here;
static long counter;

static int open_own(void)
{
	int fd = open("locked", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void lock_by_flock(int fd, int take)
{
	CHECK(flock(fd, take ? LOCK_EX : LOCK_UN) == 0);
}

static void lock_by_fcntl(int fd, int take)
{
	struct flock lock = {.l_type = take ? F_WRLCK : F_UNLCK, .l_start = 10, .l_len = 5};
	CHECK(fcntl(fd, F_OFD_SETLKW, &lock) == 0);
}

static void (*const ways[])(int, int) = {lock_by_flock, lock_by_fcntl};

static void *wait_for_the_lock(void *argument)
{
	void (*lock)(int, int) = ways[(long)argument];
	int fd = open_own();
	announce(&here);
	lock(fd, 1);
	long seen = counter++;
	lock(fd, 0);
	CHECK(close(fd) == 0);
	return (void *)seen;
}

// Each has a description of its own; only the lock keeps the counter whole.
static void *count_under_the_lock(void *argument)
{
	void (*lock)(int, int) = ways[(long)argument];
	int fd = open_own();
	for (int i = 0; i < 50; i++) {
		lock(fd, 1);
		long before = counter;
		CHECK(compute((uint64_t)before, 300) != 0);
		counter = before + 1;
		lock(fd, 0);
	}
	CHECK(close(fd) == 0);
	return NULL;
}

static void each_way(const char *name, long way)
{
	pthread_t threads[4];
	int fd = open_own();
	counter = 0;
	atomic_store(&here, 0);
	ways[way](fd, 1);
	threads[0] = start(wait_for_the_lock, (void *)way);
	until_asleep(&here);
	counter = 100;
	say("%s: meanwhile %llx", name, (unsigned long long)compute(5, 200000));
	ways[way](fd, 0);
	say("%s: then it saw %ld", name, join(threads[0]));
	for (int i = 0; i < 4; i++)
		threads[i] = start(count_under_the_lock, (void *)way);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	say("%s: counted %ld", name, counter);
	// A second description of the process is refused, as if it were another's.
	int other = open_own();
	struct flock lock = {.l_type = F_WRLCK};
	if (way == 1) {
		CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
		CHECK_ERR(fcntl(other, F_OFD_SETLK, &lock), EAGAIN);
	} else {
		CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
		CHECK_ERR(flock(other, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	}
	CHECK(close(other) == 0 && close(fd) == 0);
}

int main(void)
{
	write_file("locked", "some bytes to lock in this file");
	each_way("flock", 0);
	each_way("F_OFD_SETLKW", 1);
	return 0;
}
