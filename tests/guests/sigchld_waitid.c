// SIGCHLD taken by a thread that waits for it, and children reaped by waitid without waiting.
// covers: waitid rt_sigtimedwait
#include "threads.h"

#define CHILDREN 12

static int pids[CHILDREN];

static void *reap_all(void *argument)
{
	sigset_t *set = argument;
	long codes = 0;
	for (int left = CHILDREN; left > 0;) {
		siginfo_t info = {0}, signal_info;
		CHECK(sigwaitinfo(set, &signal_info) == SIGCHLD);
		// One signal may stand for several children.
		while (left > 0 && waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
			int is_mine = 0;
			for (int i = 0; i < CHILDREN; i++)
				is_mine |= pids[i] == info.si_pid;
			CHECK(is_mine);
			codes += info.si_code == CLD_EXITED ? info.si_status : 1000 * info.si_status;
			left--;
			info.si_pid = 0;
		}
	}
	return (void *)codes;
}

int main(void)
{
	sigset_t set = set_of(SIGCHLD);
	int gate[2];
	char byte;
	CHECK(pipe(gate) == 0);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	for (int i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			CHECK(close(gate[1]) == 0 && read(gate[0], &byte, 1) == 0);
			if (i == 5)
				raise(SIGKILL);
			_exit(i);
		}
	}
	pthread_t reaper = start(reap_all, &set);
	CHECK(close(gate[1]) == 0);
	say("codes %ld", join(reaper));
	siginfo_t info;
	CHECK_ERR(waitid(P_ALL, 0, &info, WEXITED), ECHILD);

	// WNOWAIT leaves the child to be waited for again.
	pid_t child = fork();
	if (child == 0)
		_exit(3);
	CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 3);
	reap("again", child);
	return 0;
}
