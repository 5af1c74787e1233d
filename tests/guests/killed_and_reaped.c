// Who kills a child has a handler that waits for it at once: the call that killed has succeeded.
// covers: kill pidfd_open pidfd_send_signal wait4
#include "guest.h"

static volatile int reaped;

static void on_child(int signal)
{
	(void)signal;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		reaped++;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_child, .sa_flags = SA_RESTART };
	CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			for (;;)
				pause();
		usleep(2000);
		int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		CHECK(pidfd >= 0);
		if (i % 2)
			CHECK(kill(pid, SIGKILL) == 0);
		else
			CHECK(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0);
		close(pidfd);
		while (reaped == i)
			usleep(1000);
	}
	say("reaped %d", reaped);
	return 0;
}
