// What was read from a pipe since a checkpoint is read again after a rollback, once and
// in its order, before what came later; its end comes after it.
// prints: one,two
// prints: one,two
// prints: one,two
// prints: and three
// prints: the end
#include "live.h"
#include <sys/uio.h>

int main(void)
{
	need_session();
	int input[2], ask[2], told[2];
	CHECK(pipe(input) == 0 && pipe(ask) == 0 && pipe(told) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		write_all(input[1], "zero,one,two,", 13);
		write_all(told[1], "t", 1);
		read_all(ask[0], &byte, 1);
		write_all(input[1], "three", 5);
		_exit(0);
	}
	close(input[1]);
	expect_input(told[0], "t");
	expect_input(input[0], "zero,");

	int id = checkpoint();
	int count = rv_rollbacks(id);
	char first[2], rest[6] = "";
	if (count == 1) {
		// Otherwise than before: all at once, in two places.
		struct iovec parts[2] = {{first, 2}, {rest, 5}};
		ssize_t got = readv(input[0], parts, 2);
		CHECK(got >= 2 && got <= 7);
		read_all(input[0], rest + got - 2, (size_t)(7 - got));
	} else {
		read_all(input[0], first, 2);
		read_all(input[0], rest, 5);
	}
	say("%.2s%s", first, rest);
	if (count < 2)
		back(id);
	forget(id);
	write_all(ask[1], "t", 1);
	expect_input(input[0], ",three");
	say("and three");
	CHECK(read(input[0], rest, 1) == 0);
	say("the end");
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
