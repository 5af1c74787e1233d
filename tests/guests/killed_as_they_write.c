// Processes that write all the time are killed by another one, by signals that nobody is told of
// before: what was written last is shown by replay as well.
// covers: kill pidfd_send_signal rt_sigqueueinfo tgkill write
#include "guest.h"
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ROUNDS 24

static void write_lines(int round)
{
	CHECK(setpgid(0, 0) == 0);
	for (int i = 0;; i++)
		nondet("round %d line %d", round, i);
}

static int kill_one(int round, pid_t pid)
{
	siginfo_t info = {.si_signo = SIGRTMIN + 3, .si_code = SI_QUEUE};
	int fd;
	switch (round % 6) {
	case 0: CHECK(kill(pid, SIGKILL) == 0); return SIGKILL;
	case 1: CHECK(syscall(SYS_tgkill, pid, pid, SIGKILL) == 0); return SIGKILL;
	case 2: CHECK(kill(-pid, SIGKILL) == 0); return SIGKILL;
	case 3:
		fd = pidfd_open(pid, 0);
		CHECK(fd >= 0);
		CHECK(pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0);
		CHECK(close(fd) == 0);
		return SIGKILL;
	case 4: CHECK(kill(pid, SIGRTMIN + 10) == 0); return SIGRTMIN + 10;
	default: CHECK(syscall(SYS_rt_sigqueueinfo, pid, info.si_signo, &info) == 0); return info.si_signo;
	}
}

int main(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			write_lines(round);
		setpgid(child, child);
		struct timespec time = {0, 300000 + round * 40000};
		nanosleep(&time, NULL);
		int status, number = kill_one(round, child);
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number);
	}
	say("%d killed", ROUNDS);
	return 0;
}
