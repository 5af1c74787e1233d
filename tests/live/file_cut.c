// A file that was cut since under a private mapping: the kernel took what was behind its new end out
// of all processes, and the way back does without that.
// prints: gone back
// prints: again
#include "live.h"

#define PAGES 8

static char *make(int *file)
{
	char name[] = "/tmp/rv-file-cut-XXXXXX", page[PAGE];

	*file = mkstemp(name);
	CHECK(*file >= 0 && unlink(name) == 0);
	memset(page, 1, PAGE);
	for (int i = 0; i < PAGES; i++)
		write_all(*file, page, PAGE);
	char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, *file, 0);
	CHECK(at != MAP_FAILED);
	memset(at + 2 * PAGE, 2, 4 * PAGE);
	CHECK(mprotect(at + 5 * PAGE, PAGE, PROT_READ) == 0);
	return at;
}

int main(void)
{
	int file;
	need_session();
	char *at = make(&file);
	int first = checkpoint();
	at[0] = 1;
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(ftruncate(file, PAGE) == 0);
		back(id);
	}
	CHECK(is_full(at, PAGE, 1));
	if (first_time(first))
		back(first);
	CHECK(is_full(at, PAGE, 1));
	say("gone back");

	at = make(&file);
	id = checkpoint();
	CHECK(ftruncate(file, PAGE) == 0);
	for (int i = 0; i < 2; i++)
		again(id);
	CHECK(is_full(at, PAGE, 1));
	say("again");
	return 0;
}
