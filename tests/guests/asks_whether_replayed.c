// rv_replaying() is answered in a plain recording, too: 0, and 1 in its replay, where the program may compute otherwise as long as it
// makes the same calls. It is not logged.
// covers: getpid
#include "guest.h"
#define RETROVANE_INLINE
#include "retrovane.h"

int main(void)
{
	volatile int sum = 0;
	for (int i = 0; i < 3; i++) {
		if (rv_replaying() > 0)
			sum++;
		say("call %d: %d", i, getpid() > 0);
	}
	// By hand: the number's upper half is ignored here too.
	if (syscall(0x100000000l + RV_CALL_BASE + RV_OP_REPLAYING) > 0)
		sum++;
	say("checkpoints: %s", rv_checkpoint() == -1 ? errno_name(errno) : "?");
	return 0;
}
