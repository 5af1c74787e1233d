// A daemon: forked twice, in a session of its own, its parents gone.
// covers: setsid fork umask chdir
#include "guest.h"
#include <sched.h>

int main(void)
{
	int report[2];
	CHECK(pipe(report) == 0);
	pid_t child = fork();
	if (child == 0) {
		pid_t starter = getpid();
		CHECK(setsid() == starter);
		if (fork() != 0)
			_exit(0);
		close(report[0]);
		CHECK(chdir("/") == 0);
		umask(0);
		int null = open("/dev/null", O_RDWR);
		CHECK(dup2(null, 0) == 0);
		while (getppid() == starter)
			sched_yield();
		CHECK(write(report[1], "the daemon lives\n", 17) == 17);
		int log = getsid(0) != getpid();
		CHECK(write(report[1], log ? "no leader\n" : "leader\n", log ? 10 : 7) > 0);
		_exit(9);
	}
	close(report[1]);
	reap("starter", child);
	char text[64];
	ssize_t got;
	while ((got = read(report[0], text, sizeof text)) > 0)
		CHECK(write(1, text, got) == got);
	CHECK_ERR(wait(NULL), ECHILD);
	return 0;
}
