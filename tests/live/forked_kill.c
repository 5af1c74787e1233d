// A child that was forked since a checkpoint is killed by a rollback, if it is to be,
// and what it held is let go. One that was forked before is not touched.
// options: --children=kill
// prints: both children wait
// prints: the younger is gone
// prints: the elder ends: exit 7
// prints: no child
#include "live.h"

int main(void)
{
	need_session();
	int life[2], go[2], told[2];
	CHECK(pipe(life) == 0 && pipe(go) == 0 && pipe(told) == 0);
	pid_t elder = fork();
	CHECK(elder >= 0);
	if (elder == 0) {
		char byte;
		close(life[1]);
		read_all(go[0], &byte, 1);
		_exit(7);
	}
	int id = checkpoint();
	if (first_time(id)) {
		pid_t younger = fork();
		CHECK(younger >= 0);
		if (younger == 0) {
			write_all(told[1], "t", 1);
			for (;;)
				pause();
		}
		struct pollfd wanted = {.fd = told[0], .events = POLLIN};
		CHECK(poll(&wanted, 1, -1) == 1);
		say("both children wait");
		back(id);
	}
	// The end of the pipe comes when nobody holds its other end any more.
	char byte;
	close(life[1]);
	CHECK(read(life[0], &byte, 1) == 0);
	say("the younger is gone");
	write_all(go[1], "g", 1);
	int status;
	CHECK(waitpid(-1, &status, 0) == elder);
	say_status("the elder ends", status);
	CHECK_ERR(waitpid(-1, NULL, 0), ECHILD);
	say("no child");
	return 0;
}
