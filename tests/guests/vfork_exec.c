// vfork with exec, with a failing exec, and without one.
// covers: vfork execve
#include "guest.h"

static const char *self;

static pid_t vfork_exec(char *const argv[])
{
	pid_t child = vfork();
	if (child == 0) {
		execv(argv[0], argv);
		_exit(126);
	}
	CHECK(child > 0);
	return child;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		say("exec'd with %d arguments: %s", argc, argv[1]);
		return atoi(argv[1]);
	}
	self = "/proc/self/exe";
	reap("vfork exec", vfork_exec((char *[]){(char *)self, "12", NULL}));
	reap("vfork failing exec", vfork_exec((char *[]){"/absent/program", NULL}));
	volatile int changed = 0;
	pid_t child = vfork();
	if (child == 0) {
		changed = 5;
		_exit(9);
	}
	reap("vfork exit", child);
	say("the parent sees %d", changed);
	for (int i = 0; i < 30; i++) {
		char number[8];
		snprintf(number, sizeof number, "%d", i);
		reap("again", vfork_exec((char *[]){(char *)self, number, NULL}));
	}
	return 0;
}
