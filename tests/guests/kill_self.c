// Dies by SIGKILL that it sends itself.
// covers: kill
// expect: signal 9
#include "guest.h"

int main(void)
{
	say("about to be killed");
	CHECK(kill(getpid(), SIGKILL) == 0);
	return 0;
}
