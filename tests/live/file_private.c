// A private mapping of a file: pages that the program wrote come back as it wrote them,
// those it did not are the file's, after writing more and after unmapping.
// prints: written since
// prints: unmapped since
// prints: mapped since
#include "live.h"

int main(void)
{
	need_session();
	char text[4 * PAGE];
	memset(text, 'f', sizeof text);
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	write_all(fd, text, sizeof text);
	char *at = mmap(NULL, sizeof text, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(at != MAP_FAILED);
	at[0] = at[2 * PAGE] = 'p';

	int id = checkpoint();
	if (first_time(id)) {
		at[0] = at[PAGE] = at[2 * PAGE] = at[3 * PAGE] = 's';
		back(id);
	}
	CHECK(at[0] == 'p' && at[PAGE] == 'f' && at[2 * PAGE] == 'p' && at[3 * PAGE] == 'f');
	say("written since");
	forget(id);

	id = checkpoint();
	if (first_time(id)) {
		CHECK(munmap(at, sizeof text) == 0);
		close(fd);
		back(id);
	}
	CHECK(at[0] == 'p' && at[1] == 'f' && at[PAGE] == 'f' && at[2 * PAGE] == 'p');
	at[3 * PAGE] = 'q';
	CHECK(pread(fd, text, 1, 3 * PAGE) == 1 && text[0] == 'f');
	say("unmapped since");
	forget(id);

	id = checkpoint();
	int count = rv_rollbacks(id);
	char *more = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE);
	CHECK(more != MAP_FAILED && more[0] == 'f');
	more[0] = 'm';
	if (count < 2)
		back(id);
	say("mapped since");
	return 0;
}
