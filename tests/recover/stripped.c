// Its allocator is not to be found: what crashes it is dropped instead.
// variants: O0-static O2-static
// build: -s
// options: --on-crash=rollback:9
// prints: read: good
// says: and on as before
// says: no malloc is found in its files
// says: descriptor 3: 6 bytes of input are dropped
// unchanged:
// once: the next way is to drop all
#include "recover.h"

static volatile int *volatile nowhere;

int main(void)
{
	begin();
	int both[2];
	CHECK(pipe(both) == 0 && both[0] == 3);
	write_all(both[1], "goodpoison", 10);
	checkpoint();
	char text[16] = "";
	CHECK(read(both[0], text, 4) == 4);
	say("read: %s", text);
	CHECK(fcntl(both[0], F_SETFL, O_NONBLOCK) == 0);
	if (read(both[0], text, 6) == 6)
		*nowhere = text[0];
	survived();
	return 0;
}
