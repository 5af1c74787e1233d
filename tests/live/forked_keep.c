// A child that was forked since a checkpoint lives on after a rollback, if it may, and
// is a child still of the program that went back, which does not remember it.
// options: --children=keep
// prints: the child waits
// prints: a child
// prints: it says kept
#include "live.h"

int main(void)
{
	need_session();
	int say_it[2], said[2], told[2];
	CHECK(pipe(say_it) == 0 && pipe(said) == 0 && pipe(told) == 0);
	int id = checkpoint();
	if (first_time(id)) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			char byte;
			write_all(told[1], "t", 1);
			read_all(say_it[0], &byte, 1);
			write_all(said[1], "kept", 4);
			_exit(0);
		}
		// It is there before the program goes back.
		struct pollfd wanted = {.fd = told[0], .events = POLLIN};
		CHECK(poll(&wanted, 1, -1) == 1);
		say("the child waits");
		back(id);
	}
	CHECK(waitpid(-1, NULL, WNOHANG) == 0);
	say("a child");
	write_all(say_it[1], "s", 1);
	expect_input(said[0], "kept");
	say("it says kept");
	CHECK(waitpid(-1, NULL, 0) > 0);
	CHECK_ERR(waitpid(-1, NULL, 0), ECHILD);
	return 0;
}
