// Signals read from a descriptor.
// covers: signalfd signalfd4
#include "guest.h"
#include <poll.h>
#include <sys/signalfd.h>

int main(void)
{
	sigset_t set;
	struct signalfd_siginfo info[4];
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGCHLD);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_ERR(read(fd, info, sizeof info), EAGAIN);
	raise(SIGUSR1);
	struct pollfd p = {fd, POLLIN, 0};
	CHECK(poll(&p, 1, -1) == 1);
	CHECK(read(fd, info, sizeof info) == sizeof info[0]);
	say("signal %u code %d from me %d", info[0].ssi_signo, info[0].ssi_code,
	    info[0].ssi_pid == (uint32_t)getpid());
	pid_t child = fork();
	if (child == 0)
		_exit(17);
	CHECK(poll(&p, 1, -1) == 1);
	CHECK(read(fd, info, sizeof info) == sizeof info[0]);
	say("signal %u status %d", info[0].ssi_signo, info[0].ssi_status);
	reap("child", child);
	sigaddset(&set, SIGRTMIN);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(syscall(SYS_signalfd, fd, &set, 8) == fd);
	for (int i = 0; i < 3; i++)
		CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i + 70}) == 0);
	CHECK(read(fd, info, sizeof info) == 3 * sizeof info[0]);
	say("values %d %d %d", info[0].ssi_int, info[1].ssi_int, info[2].ssi_int);
	CHECK_ERR(read(fd, info, 8), EINVAL);
	return 0;
}
