// Families: fork, all waits, exit codes, statistics, memory that is copied.
// covers: fork wait4 waitid exit_group exit getrusage
#include "guest.h"
#include <sys/resource.h>

static int global = 1;

static void many(void)
{
	pid_t pids[20];
	for (int i = 0; i < 20; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			global += i;
			_exit(global);
		}
	}
	int sum = 0;
	for (int i = 0; i < 20; i++) {
		int status;
		pid_t pid = wait(&status);
		CHECK(pid > 0 && WIFEXITED(status));
		nondet("pid %d", pid);
		sum += WEXITSTATUS(status);
	}
	say("sum of exit codes %d, mine %d", sum, global);
	CHECK_ERR(wait(NULL), ECHILD);
}

static int nested(int depth)
{
	if (depth == 0)
		return 40;
	pid_t child = fork();
	if (child == 0)
		_exit(nested(depth - 1));
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	return WEXITSTATUS(status) + 1;
}

int main(void)
{
	int status;
	many();
	pid_t child = syscall(SYS_fork);
	if (child == 0)
		_exit(nested(5));
	reap("nested", child);

	// The child lives until its parent has seen that it continued.
	int seen[2];
	CHECK(pipe(seen) == 0);
	child = fork();
	if (child == 0) {
		char byte;
		close(seen[1]);
		raise(SIGSTOP);
		CHECK(read(seen[0], &byte, 1) == 0);
		_exit(5);
	}
	close(seen[0]);
	CHECK(waitpid(child, &status, WUNTRACED) == child);
	say_status("stopping", status);
	CHECK(kill(child, SIGCONT) == 0);
	CHECK(waitpid(child, &status, WCONTINUED) == child);
	say_status("continuing", status);
	close(seen[1]);
	siginfo_t info = {0};
	CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
	say("waitid: code %d status %d", info.si_code, info.si_status);
	CHECK(info.si_pid == child);
	struct rusage usage;
	CHECK(wait4(child, &status, 0, &usage) == child);
	say_status("wait4", status);
	nondet("child used %ld us, %ld faults", (long)usage.ru_utime.tv_usec, usage.ru_minflt);

	int gate[2];
	CHECK(pipe(gate) == 0);
	child = fork();
	if (child == 0) {
		char byte;
		close(gate[1]);
		CHECK(read(gate[0], &byte, 1) == 0);
		syscall(SYS_exit, 77);
	}
	close(gate[0]);
	CHECK(waitpid(child, &status, WNOHANG) == 0);
	info.si_pid = 99;
	CHECK(waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
	close(gate[1]);
	CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0);
	say("waitid: status %d", info.si_status);
	CHECK_ERR(waitpid(1, NULL, 0), ECHILD);
	CHECK_ERR(waitid(P_ALL, 0, &info, 0), EINVAL);
	CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
	nondet("children's maximum %ld KB", usage.ru_maxrss);
	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	nondet("own faults %ld", usage.ru_minflt);
	return 0;
}
