// Dies by abort.
// covers: tgkill
// expect: signal 6
#include "guest.h"

int main(void)
{
	say("about to abort");
	fprintf(stderr, "on stderr too\n");
	abort();
}
