// Programs that let every descriptor they do not know be closed by the next execve.
// covers: fcntl ioctl execve
#include "guest.h"
#include <dirent.h>
#include <sys/ioctl.h>

static void mark_listed(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	CHECK(dir != NULL);
	while ((entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);
		if (fd > 2 && fcntl(fd, F_GETFD) >= 0)
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	closedir(dir);
}

static void mark_all(void)
{
	for (int fd = 3; fd < 70000; fd++)
		ioctl(fd, FIOCLEX);
}

static void run_again(const char *when, void (*mark)(void))
{
	pid_t child = fork();
	if (child == 0) {
		mark();
		execl("/proc/self/exe", "again", when, (char *)NULL);
		_exit(99);
	}
	reap(when, child);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[0], "again") == 0) {
		say("%s: another image", argv[1]);
		CHECK_ERR(fcntl(5, F_GETFD), EBADF);
		return 7;
	}
	int fd = open("/dev/null", O_RDONLY);
	CHECK(fd >= 0 && dup2(fd, 5) == 5);
	CHECK(ioctl(5, FIOCLEX) == 0 && fcntl(5, F_GETFD) == FD_CLOEXEC);
	CHECK(ioctl(5, FIONCLEX) == 0 && fcntl(5, F_GETFD) == 0);
	CHECK_ERR(fcntl(999, F_SETFD, FD_CLOEXEC), EBADF);
	CHECK_ERR(ioctl(999, FIOCLEX), EBADF);
	run_again("all that are listed", mark_listed);
	run_again("all numbers", mark_all);
	return 0;
}
