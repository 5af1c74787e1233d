// A thread that is in a checkpoint ends last, behind more threads than are kept for a replay:
// the way back has it again, under its number.
// prints: it ended
// prints: it is there again, and ends
#include "live.h"

#define MANY 2500

static int wakes;

static void *end(void *argument)
{
	return argument;
}

static void *linger(void *argument)
{
	char byte;
	CHECK(read(wakes, &byte, 1) == 1);
	*(pid_t *)argument = gettid();
	return argument;
}

int main(void)
{
	need_session();
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	wakes = ends[1];
	pid_t tid = 0;
	pthread_t thread = start(linger, &tid);
	int id = checkpoint();
	int is_first = first_time(id);
	// How it was called is kept outside of memory.
	int file = open("tid", O_RDWR | O_CREAT, 0600);
	CHECK(file >= 0);
	if (is_first)
		for (long i = 0; i < MANY; i++)
			CHECK(join(start(end, (void *)i)) == i);
	// What it read is given back to it after the way back.
	if (is_first)
		CHECK(tid == 0 && write(ends[0], "", 1) == 1);
	CHECK(pthread_join(thread, NULL) == 0 && tid != 0);
	if (is_first) {
		CHECK(pwrite(file, &tid, sizeof tid, 0) == sizeof tid);
		say("it ended");
		back(id);
	}
	pid_t before;
	CHECK(pread(file, &before, sizeof before, 0) == sizeof before && before == tid);
	say("it is there again, and ends");
	return 0;
}
