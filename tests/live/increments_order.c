// A chain of checkpoints, of which each saves only what was written since the one before:
// discarded out of order, gone back to twice, to an earlier one after a later one, with
// mappings, the heap, threads, a child and shared memory changed between them.
// prints: out of order
// prints: twice to one
// prints: a later one, then an earlier one
// prints: mappings between
// prints: the heap between
// prints: two threads between
// prints: a child between
// prints: shared memory between
// prints: what calls write
// prints: far more than before
#include "live.h"
#include <semaphore.h>

#define PAGES 1500
#define STEPS 20

static unsigned char *memory;

// Each step writes pages of its own, and one that all write.
static void write_step(int step)
{
	for (int page = step; page < PAGES; page += 97)
		memory[page * PAGE + step] = (unsigned char)step;
	memory[0] = (unsigned char)step;
}

static int is_as_after(int last)
{
	if (memory[0] != last)
		return 0;
	for (int step = 1; step < STEPS; step++)
		for (int page = step; page < PAGES; page += 97)
			if (memory[page * PAGE + step] != (step <= last ? step : 0))
				return 0;
	return 1;
}

static void begin(void)
{
	memset(memory, 0, PAGES * PAGE);
}

// Takes one checkpoint after each of the steps 1 to `last`. True when `which` returned again.
static int take_chain(int *ids, int last, int which)
{
	begin();
	for (int step = 1; step <= last; step++) {
		write_step(step);
		ids[step] = checkpoint();
		if (rv_rollbacks(ids[step]) > 0) {
			CHECK(step == which && is_as_after(step));
			return 1;
		}
	}
	return 0;
}

static void out_of_order(void)
{
	int ids[STEPS];
	if (!take_chain(ids, 8, 5)) {
		forget(ids[4]);
		forget(ids[7]);
		forget(ids[1]);
		write_step(9);
		forget(ids[8]);
		forget(ids[2]);
		int id = checkpoint();
		CHECK(first_time(id));
		forget(ids[6]);
		write_step(10);
		back(ids[5]);
	}
	// The third has what the first, the second and itself had saved.
	CHECK_ERR(rv_rollback(ids[6]), ENOENT);
	CHECK_ERR(rv_rollback(ids[4]), ENOENT);
	forget(ids[5]);
	forget(ids[3]);
	say("out of order");
}

static void twice(void)
{
	int ids[STEPS];
	if (!take_chain(ids, 4, 3) || rv_rollbacks(ids[3]) == 1) {
		write_step(6);
		int id = checkpoint();
		CHECK(first_time(id));
		write_step(7);
		back(ids[3]);
	}
	CHECK(rv_rollbacks(ids[3]) == 2);
	for (int step = 1; step <= 3; step++)
		forget(ids[step]);
	say("twice to one");
}

static void later_then_earlier(void)
{
	begin();
	write_step(1);
	int first = checkpoint();
	CHECK(is_as_after(1));
	if (first_time(first)) {
		write_step(2);
		int second = checkpoint();
		CHECK(is_as_after(2));
		if (first_time(second)) {
			write_step(3);
			int third = checkpoint();
			CHECK(is_as_after(3));
			if (first_time(third)) {
				write_step(4);
				back(third);
			}
			write_step(5);
			back(second);
		}
		write_step(6);
		// One that is taken after the way back rests on what was gone back to.
		int other = checkpoint();
		CHECK(memory[0] == 6 && memory[6 * PAGE + 6] == 6 && memory[3 * PAGE + 3] == 0);
		if (first_time(other)) {
			write_step(7);
			back(other);
		}
		back(first);
	}
	forget(first);
	say("a later one, then an earlier one");
}

static void mappings(void)
{
	begin();
	write_step(1);
	char *gone = map(8 * PAGE), *moved = map(8 * PAGE), *closed = map(8 * PAGE), *dropped = map(8 * PAGE);
	int ids[5];
	ids[0] = checkpoint();
	CHECK(first_time(ids[0]));
	memset(gone, 'g', 8 * PAGE);
	memset(moved, 'm', 8 * PAGE);
	memset(closed, 'c', 8 * PAGE);
	memset(dropped, 'd', 8 * PAGE);
	ids[1] = checkpoint();
	if (first_time(ids[1])) {
		CHECK(munmap(gone + PAGE, 6 * PAGE) == 0);
		CHECK(madvise(dropped + PAGE, 2 * PAGE, MADV_DONTNEED) == 0);
		CHECK(mprotect(closed, 4 * PAGE, PROT_NONE) == 0);
		CHECK(mprotect(closed + 4 * PAGE, 2 * PAGE, PROT_READ) == 0);
		char *place = mremap(moved, 8 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
		CHECK(place != MAP_FAILED);
		memset(place + 8 * PAGE, 'n', 56 * PAGE);
		ids[2] = checkpoint();
		CHECK(!is_mapped(gone + PAGE) && is_full(gone, PAGE, 'g') && is_full(gone + 7 * PAGE, PAGE, 'g'));
		CHECK(is_full(dropped, PAGE, 'd') && is_full(dropped + PAGE, 2 * PAGE, 0));
		CHECK(is_full(place, 8 * PAGE, 'm') && is_full(place + 8 * PAGE, 56 * PAGE, 'n'));
		CHECK(is_full(closed + 4 * PAGE, 4 * PAGE, 'c'));
		if (first_time(ids[2])) {
			CHECK(mprotect(closed, 8 * PAGE, PROT_READ | PROT_WRITE) == 0);
			memset(closed, 'x', 8 * PAGE);
			memset(dropped, 'x', 8 * PAGE);
			CHECK(munmap(place, 64 * PAGE) == 0);
			CHECK(mmap(gone + PAGE, 3 * PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == gone + PAGE);
			gone[PAGE] = gone[0] = 'x';
			ids[3] = checkpoint();
			CHECK(first_time(ids[3]));
			back(ids[2]);
		}
		back(ids[1]);
	}
	CHECK(is_full(gone, 8 * PAGE, 'g') && is_full(moved, 8 * PAGE, 'm'));
	CHECK(is_full(closed, 8 * PAGE, 'c') && is_full(dropped, 8 * PAGE, 'd'));
	memset(closed, 'y', 8 * PAGE);
	forget(ids[1]);
	forget(ids[0]);
	say("mappings between");
}

static void heap(void)
{
	char *start = sbrk(0);
	int first = checkpoint();
	CHECK(first_time(first));
	CHECK(sbrk(40 * PAGE) == start);
	memset(start, 'h', 40 * PAGE);
	int second = checkpoint();
	if (first_time(second)) {
		CHECK(brk(start + 10 * PAGE) == 0);
		start[0] = 'i';
		int third = checkpoint();
		CHECK(first_time(third));
		CHECK(brk(start + 20 * PAGE) == 0 && is_full(start + 10 * PAGE, 10 * PAGE, 0));
		back(second);
	}
	CHECK(sbrk(0) == start + 40 * PAGE && is_full(start, 40 * PAGE, 'h'));
	CHECK(brk(start) == 0);
	forget(second);
	forget(first);
	say("the heap between");
}

static sem_t wanted, done;
static int wanted_step;

static void *worker(void *none)
{
	(void)none;
	for (;;) {
		while (sem_wait(&wanted) != 0)
			;
		if (wanted_step == 0)
			return NULL;
		write_step(wanted_step);
		sem_post(&done);
	}
}

static void let_write(int step)
{
	wanted_step = step;
	sem_post(&wanted);
	while (step && sem_wait(&done) != 0)
		;
}

static void threads(void)
{
	begin();
	CHECK(sem_init(&wanted, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
	write_step(1);
	int first = checkpoint();
	CHECK(first_time(first));
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
	let_write(2);
	int second = checkpoint();
	CHECK(is_as_after(2));
	if (first_time(second)) {
		let_write(3);
		int third = checkpoint();
		CHECK(first_time(third));
		let_write(4);
		back(second);
	}
	let_write(3);
	CHECK(is_as_after(3));
	let_write(0);
	CHECK(pthread_join(thread, NULL) == 0);
	forget(second);
	forget(first);
	say("two threads between");
}

static void child(void)
{
	begin();
	write_step(1);
	int first = checkpoint();
	CHECK(first_time(first));
	write_step(2);
	int second = checkpoint();
	CHECK(is_as_after(2));
	if (first_time(second)) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			// It has no checkpoints, and its writes are its own.
			int none = rv_rollbacks(second);
			write_step(3);
			_exit(none == -1 ? 5 : 6);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
		write_step(4);
		int third = checkpoint();
		CHECK(first_time(third) && memory[3 * PAGE + 3] == 0);
		write_step(5);
		back(second);
	}
	forget(second);
	forget(first);
	say("a child between");
}

static void shared(void)
{
	char *file_memory;
	int file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0 && ftruncate(file, 4 * PAGE) == 0);
	begin();
	write_step(1);
	int first = checkpoint();
	CHECK(first_time(first));
	file_memory = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(file_memory != MAP_FAILED);
	memset(file_memory, 's', 4 * PAGE);
	write_step(2);
	int second = checkpoint();
	CHECK(is_as_after(2) && is_full(file_memory, 4 * PAGE, 's'));
	if (first_time(second)) {
		memset(file_memory, 't', PAGE);
		write_step(3);
		int third = checkpoint();
		CHECK(is_full(file_memory, PAGE, 't') && is_full(file_memory + PAGE, 3 * PAGE, 's'));
		if (first_time(third)) {
			memset(file_memory, 'u', 4 * PAGE);
			write_step(4);
			back(third);
		}
		CHECK(munmap(file_memory, 8 * PAGE) == 0);
		back(second);
	}
	CHECK(munmap(file_memory, 8 * PAGE) == 0);
	forget(second);
	forget(first);
	close(file);
	say("shared memory between");
}

static void calls(void)
{
	begin();
	int ends[2];
	CHECK(pipe(ends) == 0 && write(ends[1], "one two", 7) == 7);
	int first = checkpoint();
	CHECK(first_time(first));
	char *text = (char *)memory + 500 * PAGE;
	CHECK(read(ends[0], text, 3) == 3);
	int second = checkpoint();
	CHECK(memcmp(text, "one\0", 4) == 0);
	if (first_time(second)) {
		CHECK(read(ends[0], text + 3, 4) == 4);
		int third = checkpoint();
		CHECK(first_time(third) && memcmp(text, "one two", 8) == 0);
		CHECK(getcwd(text, 100) == text);
		back(second);
	}
	CHECK(read(ends[0], text, 4) == 4 && memcmp(text, " two", 4) == 0);
	forget(second);
	forget(first);
	close(ends[0]);
	close(ends[1]);
	say("what calls write");
}

static void much(void)
{
	begin();
	write_step(1);
	int first = checkpoint();
	CHECK(first_time(first));
	write_step(2);
	int second = checkpoint();
	CHECK(is_as_after(2));
	if (first_time(second)) {
		memset(memory, 'a', PAGES * PAGE);
		int third = checkpoint();
		CHECK(is_full((char *)memory, PAGES * PAGE, 'a'));
		if (first_time(third)) {
			memset(memory, 'b', PAGES * PAGE / 2);
			int fourth = checkpoint();
			CHECK(first_time(fourth));
			memory[PAGE] = 'c';
			back(third);
		}
		// Past a fork that was made since.
		back(second);
	}
	write_step(3);
	int other = checkpoint();
	CHECK(is_as_after(3));
	if (first_time(other))
		back(other);
	forget(other);
	forget(first);
	forget(second);
	say("far more than before");
}

int main(void)
{
	need_session();
	memory = map(PAGES * PAGE);
	out_of_order();
	twice();
	later_then_earlier();
	mappings();
	heap();
	threads();
	child();
	shared();
	calls();
	much();
	return 0;
}
