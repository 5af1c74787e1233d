// With --files=snapshot a rollback that cannot put a file back is refused, and leaves
// program and files where they were.
// options: --files=snapshot
// prints: refused: Operation not permitted
// prints: everything stays where it was
// prints: the program goes on
#include "live.h"

static int holds(int fd, const char *text)
{
	char bytes[64] = "";
	CHECK(fd >= 0 && pread(fd, bytes, sizeof bytes - 1, 0) >= 0);
	return strcmp(bytes, text) == 0;
}

int main(void)
{
	need_session();
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
	CHECK(sealed >= 0);
	write_all(sealed, "then", 4);
	write_file("other", "then");
	write_file("removed", "then");
	int other = open("other", O_RDWR);

	int id = checkpoint();
	CHECK(first_time(id));
	CHECK(pwrite(sealed, "NOW!", 4, 0) == 4);
	// Nobody can write to it any more, whoever that is.
	CHECK(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	CHECK(pwrite(other, "NOW, and longer", 15, 0) == 15);
	CHECK(unlink("removed") == 0);
	write_file("made", "NOW!");
	CHECK(rv_rollback(id) == -1);
	say("refused: %s", strerror(errno));

	CHECK(holds(sealed, "NOW!") && holds(other, "NOW, and longer"));
	CHECK(holds(open("made", O_RDONLY), "NOW!") && access("removed", F_OK) == -1);
	CHECK(first_time(id));
	say("everything stays where it was");
	forget(id);
	write_all(other, "again", 5);
	CHECK(holds(other, "againand longer"));
	say("the program goes on");
	return 0;
}
