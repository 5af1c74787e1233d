// In a replay everything that comes from outside is what it was: time, random numbers,
// ids, pipes, files that have changed since, and the counter of the processor.
// prints: replayed 1
// prints: replayed 2
// prints: replayed 3
#include "live.h"
#include <sys/random.h>
#include <sys/time.h>

static uint64_t input(int fd)
{
	struct {
		struct timespec now[2];
		struct timeval day;
		uint64_t random[4], ticks;
		char file[16], piped[8];
		struct stat status;
	} all;
	memset(&all, 0, sizeof all);
	CHECK(clock_gettime(CLOCK_REALTIME, &all.now[0]) == 0);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &all.now[1]) == 0);
	CHECK(gettimeofday(&all.day, NULL) == 0);
	CHECK(getrandom(all.random, sizeof all.random, 0) == sizeof all.random);
	all.ticks = __builtin_ia32_rdtsc();
	int file = open("in", O_RDONLY);
	CHECK(file >= 0 && read(file, all.file, sizeof all.file) == 8 && fstat(file, &all.status) == 0);
	close(file);
	read_all(fd, all.piped, 4);
	return hash_bytes(&all, sizeof all);
}

int main(void)
{
	need_session();
	int ends[2];
	write_file("in", "original");
	CHECK(pipe(ends) == 0);
	write_all(ends[1], "abcdefgh", 8);
	int id = checkpoint();
	uint64_t sum = input(ends[0]);
	write_file("in", "modified");
	sum = sum * 31 + input(ends[0]);
	// Checked against the log in each replay.
	nondet("%llx", (unsigned long long)sum);
	for (int i = 1; i <= 3; i++) {
		again(id);
		say("replayed %d", i);
	}
	write_all(ends[1], "more", 4);
	expect_input(ends[0], "more");
	return 0;
}
