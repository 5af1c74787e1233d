// A process that outlives the one that was started: its output comes after the exit.
// covers: fork exit_group read
// expect: exit 4
#include "guest.h"

int main(void)
{
	int gone[2];
	CHECK(pipe(gone) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		close(gone[1]);
		// The end of file says that the parent has exited.
		CHECK(read(gone[0], &byte, 1) == 0);
		say("the orphan speaks");
		_exit(0);
	}
	say("the parent leaves");
	_exit(4);
}
