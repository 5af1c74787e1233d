// Operations on processes: made, run, waited for, killed.
#include "random.h"
#include <poll.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/times.h>

static void act(struct self *me, long operations);
extern char **environ;

OPERATION void await_child(struct self *me, pid_t child)
{
	int status = 0;
	struct rusage usage;
	memset(&usage, 0, sizeof usage);
	pid_t ended;
	switch (below(me, 3)) {
	case 0:
		while ((ended = waitpid(child, &status, 0)) == -1 && errno == EINTR)
			;
		fold_value(me, ended);
		fold_value(me, status);
		break;
	case 1:
		while ((ended = wait4(child, &status, 0, &usage)) == -1 && errno == EINTR)
			;
		fold_value(me, status);
		fold_value(me, usage.ru_minflt);
		break;
	case 2: {
		siginfo_t info;
		memset(&info, 0, sizeof info);
		while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == -1 && errno == EINTR)
			;
		fold_value(me, info.si_status);
		fold_value(me, info.si_code);
		while (waitpid(child, &status, 0) == -1 && errno == EINTR)
			;
		break;
	}
	}
}

OPERATION void process_forked(struct self *me)
{
	if (me->in_child > 1)
		return;
	uint64_t seed = draw(me);
	pid_t child = fork();
	if (child == 0) {
		struct self own = {.seed = seed, .in_child = me->in_child + 1};
		this_thread = &own;
		act(&own, 1 + below(&own, 8));
		char line[64];
		snprintf(line, sizeof line, "child %016lx\n", (unsigned long)own.digest);
		write_line(line);
		switch (below(&own, 5)) {
		case 0: raise(SIGKILL); break;
		case 1: signal(SIGTERM, SIG_DFL); raise(SIGTERM); break;
		case 2: signal(SIGSEGV, SIG_DFL); *(volatile int *)below(&own, PAGE) = 1; break;
		}
		_exit((int)below(&own, 256));
	}
	if (child > 0) {
		if (below(me, 4) == 0)
			fold_result(me, kill(child, below(me, 2) ? SIGKILL : SIGRTMIN + 10));
		await_child(me, child);
	}
}

OPERATION void process_vforked(struct self *me)
{
	static char *const commands[][3] = {{"/bin/true", NULL, NULL}, {"/bin/false", NULL, NULL}, {"/nowhere", NULL, NULL},
					    {"/bin/echo", "an echo", NULL}, {"/bin/uname", "-m", NULL}};
	char *const *command = commands[below(me, 5)];
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pid_t child = vfork();
	if (child == 0) {
		execv(command[0], command);
		_exit(77);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (child > 0)
		await_child(me, child);
}

OPERATION void process_spawned(struct self *me)
{
	if (me->in_child)
		return;
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return;
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	char *const arguments[] = {"sh", "-c", "echo $((6 * 7)) $PPID; pwd; exit 3", NULL};
	pid_t child;
	int error = posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ);
	fold_value(me, error);
	close(ends[1]);
	char bytes[200];
	ssize_t got;
	while (!error && ((got = read(ends[0], bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR)))
		if (got > 0)
			fold(me, bytes, (size_t)got);
	close(ends[0]);
	posix_spawn_file_actions_destroy(&actions);
	if (!error)
		await_child(me, child);
}

// This program again, as another image of a child.
OPERATION void process_again(struct self *me)
{
	if (me->in_child > 1)
		return;
	char seed[24], kind[8];
	snprintf(seed, sizeof seed, "%lu", (unsigned long)below(me, 1000000));
	snprintf(kind, sizeof kind, "%ld", below(me, 12));
	char *const arguments[] = {"again", seed, kind, "1", NULL};
	pid_t child = fork();
	if (child == 0) {
		execv(program_path, arguments);
		_exit(78);
	}
	if (child > 0)
		await_child(me, child);
}

OPERATION void process_talks(struct self *me)
{
	int to[2], from[2];
	if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
		return;
	pid_t parent = getpid(), child = fork();
	if (child == 0) {
		// Other children may hold the other end: a zero ends the talk, or the end of the parent.
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		close(to[1]);
		char byte = 0;
		ssize_t got;
		while ((got = read(to[0], &byte, 1)) == 1 ? byte != 0 : got < 0 && errno == EINTR)
			if (got == 1)
				write(from[1], &(char){(char)(byte ^ 0x55)}, 1);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	for (long i = below(me, 20); child > 0 && i > 0; i--) {
		char byte = (char)(1 + below(me, 255));
		fold_result(me, write(to[1], &byte, 1));
		struct pollfd answers = {.fd = from[0], .events = POLLIN};
		if (fold_result(me, poll(&answers, 1, 5000)) == 1)
			fold_result(me, read(from[0], &byte, 1));
		fold_value(me, byte);
	}
	while (write(to[1], "", 1) == -1 && errno == EINTR)
		;
	close(to[1]);
	close(from[0]);
	if (child > 0)
		await_child(me, child);
}

// A child that shares memory with its parent and with its brothers.
OPERATION void process_shares(struct self *me)
{
	pid_t children[3];
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			for (int round = 0; round < 300; round++)
				atomic_fetch_add(&shared->counters[round % 3], i + 1);
			syscall(SYS_futex, &shared->word, 1, 1, NULL, NULL, 0);
			_exit((int)(shared->counters[i] & 127));
		}
	}
	for (int round = 0; round < 100; round++)
		fold_value(me, shared->counters[round % 3]);
	for (int i = 0; i < 3; i++)
		if (children[i] > 0)
			await_child(me, children[i]);
}

OPERATION void process_orphaned(struct self *me)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return;
	pid_t child = fork();
	if (child == 0) {
		if (fork() == 0) {
			write(ends[1], "orphan", 6);
			_exit(4);
		}
		_exit(5);
	}
	close(ends[1]);
	if (child > 0)
		await_child(me, child);
	char bytes[10];
	ssize_t got;
	while ((got = read(ends[0], bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))
		fold_value(me, got);
	close(ends[0]);
}

OPERATION void process_watched(struct self *me)
{
	pid_t child = fork();
	if (child == 0) {
		struct timespec nap = microseconds(below(me, 2000));
		nanosleep(&nap, NULL);
		_exit(6);
	}
	if (child < 0)
		return;
	int fd = pidfd_open(child, 0);
	struct pollfd ends = {.fd = fd, .events = POLLIN};
	fold_result(me, poll(&ends, 1, (int)below(me, 3)));
	if (below(me, 2))
		fold_result(me, pidfd_send_signal(fd, SIGSTOP, NULL, 0));
	fold_result(me, pidfd_send_signal(fd, below(me, 2) ? SIGKILL : SIGCONT, NULL, 0));
	kill(child, SIGCONT);
	close(fd);
	await_child(me, child);
}

OPERATION void process_facts(struct self *me)
{
	fold_value(me, getpid());
	fold_value(me, getppid());
	fold_value(me, getpgid(0));
	fold_value(me, getsid(0));
	fold_value(me, getuid());
	fold_value(me, sched_getcpu());
	struct rusage usage;
	memset(&usage, 0, sizeof usage);
	getrusage(below(me, 2) ? RUSAGE_SELF : RUSAGE_THREAD, &usage);
	fold(me, &usage, sizeof usage);
	struct tms times_now;
	fold_value(me, times(&times_now));
	fold_value(me, times_now.tms_utime);
	char name[16];
	snprintf(name, sizeof name, "name%ld", below(me, 100));
	prctl(PR_SET_NAME, name);
	prctl(PR_GET_NAME, name);
	fold(me, name, strlen(name));
	struct rlimit limit;
	fold_result(me, getrlimit((int)below(me, 20), &limit));
	fold_value(me, (long)limit.rlim_cur);
	cpu_set_t set;
	CPU_ZERO(&set);
	fold_result(me, sched_getaffinity(0, sizeof set, &set));
	fold_value(me, CPU_COUNT(&set));
	fold_result(me, getpriority(PRIO_PROCESS, 0));
	mode_t mask = umask(022);
	fold_value(me, mask);
}
