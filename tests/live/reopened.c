// A file that was closed since, and opened again otherwise under the same number, is open as it
// was: for reading, and with an offset that is a copy's, too.
// prints: for reading
// prints: with its copy
#include "live.h"

int main(void)
{
	need_session();
	char name[] = "/tmp/rv-reopened-XXXXXX", bytes[4];
	int file = mkstemp(name);
	CHECK(file >= 0 && write(file, "0123456789", 10) == 10);
	close(file);
	CHECK(open(name, O_RDONLY) == file);

	int id = checkpoint();
	if (first_time(id)) {
		CHECK(read(file, bytes, 4) == 4);
		close(file);
		CHECK(open(name, O_WRONLY | O_APPEND) == file);
		back(id);
	}
	CHECK(read(file, bytes, 4) == 4 && memcmp(bytes, "0123", 4) == 0);
	forget(id);
	say("for reading");

	int copy = dup(file);
	id = checkpoint();
	if (first_time(id)) {
		close(file);
		CHECK(open(name, O_RDONLY) == file);
		back(id);
	}
	CHECK(read(file, bytes, 2) == 2 && memcmp(bytes, "45", 2) == 0);
	CHECK(read(copy, bytes, 2) == 2 && memcmp(bytes, "67", 2) == 0);
	forget(id);
	CHECK(unlink(name) == 0);
	say("with its copy");
	return 0;
}
