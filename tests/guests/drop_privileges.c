// A server that gives up root: chroot, groups, user, and exec afterwards.
// covers: setgroups setresuid setresgid chroot execve
// needs: root
#include "guest.h"
#include <grp.h>

int main(int argc, char **argv)
{
	if (argc > 1) {
		say("after exec: %d %d, %s", geteuid(), getegid(), argv[1]);
		return 0;
	}
	write_file("secret", "x");
	CHECK(chmod("secret", 0600) == 0);
	int fd = open("secret", O_RDONLY);
	pid_t child = fork();
	if (child == 0) {
		CHECK(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0);
		CHECK(setresuid(65534, 65534, 65534) == 0);
		CHECK_ERR(open("secret", O_RDONLY), EACCES);
		char byte;
		CHECK(read(fd, &byte, 1) == 1 && byte == 'x');
		CHECK_ERR(setuid(0), EPERM);
		CHECK_ERR(kill(getppid(), 0), EPERM);
		execl("/proc/self/exe", "dropped", "as nobody", NULL);
		_exit(1);
	}
	reap("dropped", child);
	return 0;
}
