// A program that closes all descriptors, before and after a checkpoint, goes back and is
// replayed all the same. It can say so by its exit code only.
// prints: closing
// expect: exit 42
#include "live.h"

int main(void)
{
	need_session();
	say("closing");
	int memory = 1;
	int id = checkpoint();
	if (first_time(id)) {
		memory = 2;
		syscall(SYS_close_range, 0, ~0u, 0);
		CHECK(!is_open(0) && !is_open(1) && !is_open(2));
		back(id);
	}
	if (memory != 1)
		_exit(1);
	syscall(SYS_close_range, 0, ~0u, 0);
	forget(id);

	id = checkpoint();
	memory++;
	if (first_time(id))
		back(id);
	if (memory != 2 || rv_replay(id) != 0 || memory != 2 || rv_discard(id) != 0)
		_exit(2);
	// The numbers begin at 0 again: nothing of the session's is in the way.
	if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1)
		_exit(3);
	_exit(42);
}
