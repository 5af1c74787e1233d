// Dies by writing into a pipe without readers.
// covers: write
// expect: signal 13
#include "guest.h"

int main(void)
{
	int p[2];
	signal(SIGPIPE, SIG_DFL);
	CHECK(pipe(p) == 0);
	close(p[0]);
	say("about to write");
	CHECK(write(p[1], "x", 1) == 1);
	return 0;
}
