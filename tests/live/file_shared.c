// A shared mapping of a file is there after a rollback, and is the file: what is
// written to one is read from the other. Whether the content goes back is the
// session's choice (--files), but both say the same.
// prints: written since
// prints: unmapped since
// prints: made since
#include "live.h"

static char *at;
static int fd;

static char in_file(long offset)
{
	char byte;
	CHECK(pread(fd, &byte, 1, offset) == 1);
	return byte;
}

static void is_the_file(void)
{
	static char next = 'A';
	for (long page = 0; page < 4; page++) {
		CHECK(at[page * PAGE + 7] == in_file(page * PAGE + 7));
		at[page * PAGE + 9] = next;
		CHECK(in_file(page * PAGE + 9) == next);
		next++;
		CHECK(pwrite(fd, &next, 1, page * PAGE + 11) == 1);
		CHECK(((volatile char *)at)[page * PAGE + 11] == next);
		next++;
	}
}

int main(void)
{
	need_session();
	fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 4 * PAGE) == 0);
	at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	memset(at, 'f', 4 * PAGE);

	int id = checkpoint();
	if (first_time(id)) {
		at[7] = at[PAGE + 7] = 's';
		back(id);
	}
	CHECK(at[7] == 'f' || at[7] == 's');
	is_the_file();
	say("written since");
	forget(id);

	id = checkpoint();
	if (first_time(id)) {
		CHECK(munmap(at, 4 * PAGE) == 0);
		back(id);
	}
	is_the_file();
	say("unmapped since");
	forget(id);

	id = checkpoint();
	if (first_time(id)) {
		char *more = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(more != MAP_FAILED && more != at);
		more[PAGE + 7] = 'm';
		CHECK(munmap(at, 4 * PAGE) == 0);
		back(id);
	}
	is_the_file();
	say("made since");
	return 0;
}
