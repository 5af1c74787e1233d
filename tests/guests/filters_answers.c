// Filters that answer calls with errors, by number and by argument; several at once; calls
// that the kernel never sees are filtered too, and what the vDSO answers is not.
// covers: seccomp prctl getpgid
#include "filters.h"
#include <sys/mman.h>
#include <sys/time.h>

static volatile int handled;

static void on_signal(int number)
{
	handled += number;
}

static void several(void)
{
	CHECK(FILTER(0, DATA(nr), FOR(RARE, ERROR(1)), RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK_ERR(getpgid(0), EPERM);
	CHECK(FILTER(0, DATA(nr), FOR(RARE, ERROR(2)), RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK_ERR(getpgid(0), ENOENT);
	// Weaker ones change nothing; of actions that nobody takes ENOSYS comes.
	CHECK(FILTER(0, DATA(nr), FOR(RARE, SECCOMP_RET_LOG), RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK(FILTER(0, DATA(nr), FOR(RARE, SECCOMP_RET_TRACE | 5), RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK_ERR(getpgid(0), ENOENT);
	CHECK(FILTER(0, DATA(nr), FOR(SYS_getsid, SECCOMP_RET_TRACE | 5), RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK_ERR(getsid(0), ENOSYS);
	CHECK(FILTER(0, DATA(nr), FOR(SYS_getpriority, SECCOMP_RET_USER_NOTIF),
	             RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK_ERR(syscall(SYS_getpriority, 0, 0), ENOSYS);
	CHECK(FILTER(0, DATA(nr), FOR(SYS_getsid, SECCOMP_RET_LOG), RETURN(SECCOMP_RET_LOG)) == 0);
	CHECK_ERR(getsid(0), ENOSYS);
	say("mode %d", prctl(PR_GET_SECCOMP));
}

static void by_argument(void)
{
	// dup2(X, 77): X is the error; an upper half decides, too.
	CHECK(FILTER(0, DATA(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_dup2, 0, 6),
	             DATA(args[1]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 77, 0, 4),
	             DATA(args[0]), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff),
	             BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO), BPF_STMT(BPF_RET | BPF_A, 0),
	             RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK_ERR(dup2(13, 77), EACCES);
	say("error 0: %d", dup2(0, 77));
	CHECK(fcntl(77, F_GETFD) == -1);
	say("too large an error: %ld", (long)syscall(SYS_dup2, 0xf000, 77) == -1 ? (long)errno : 0l);
	CHECK(dup2(1, 78) == 78 && close(78) == 0);
	CHECK(FILTER(0, DATA(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RARE, 0, 3),
	             BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5]) + 4),
	             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x12345678, 0, 1), RETURN(ERROR(EXDEV)),
	             RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK(syscall(RARE, 0, 0, 0, 0, 0, 0x12345677ffffffff) > 0);
	CHECK_ERR(syscall(RARE, 0, 0, 0, 0, 0, 0x1234567800000000), EXDEV);
}

// What the tool answers or does by itself.
static void done_inside(void)
{
	char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	int file = dup(1);
	struct sigaction action = {.sa_handler = on_signal}, old;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	void *end = sbrk(0);
	CHECK(FILTER(0, DATA(nr), FOR(SYS_mmap, ERROR(EAGAIN)), FOR(SYS_munmap, ERROR(0)),
	             FOR(SYS_mprotect, ERROR(EXDEV)), FOR(SYS_close, ERROR(0)), FOR(SYS_brk, ERROR(0)),
	             FOR(SYS_rt_sigaction, ERROR(EDOM)), FOR(SYS_futex, ERROR(EL2HLT)),
	             FOR(SYS_clone, ERROR(EMLINK)), FOR(SYS_clone3, ERROR(ENOSYS)),
	             FOR(SYS_fork, ERROR(EMLINK)), FOR(SYS_vfork, ERROR(EMLINK)),
	             FOR(SYS_execve, ERROR(ENOTBLK)), FOR(SYS_prctl, ERROR(EBADE)),
	             FOR(SYS_sigaltstack, ERROR(EBADR)), FOR(SYS_kill, ERROR(ESRCH)),
	             RETURN(SECCOMP_RET_ALLOW)) == 0);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EAGAIN);
	CHECK(munmap(memory, 8192) == 0);
	memory[4096] = 7;
	CHECK_ERR(mprotect(memory, 8192, PROT_NONE), EXDEV);
	memory[0] = memory[4096];
	CHECK(close(file) == 0 && fcntl(file, F_GETFD) == 0);
	CHECK(syscall(SYS_brk, (char *)end + 4096) == 0);
	action.sa_handler = SIG_IGN;
	CHECK_ERR(sigaction(SIGUSR1, &action, NULL), EDOM);
	CHECK_ERR(sigaction(SIGUSR1, NULL, &old), EDOM);
	CHECK(raise(SIGUSR1) == 0 && handled == SIGUSR1);
	int word = 0;
	CHECK_ERR(syscall(SYS_futex, &word, 0, 1, NULL, NULL, 0), EL2HLT);
	CHECK_ERR(syscall(SYS_futex, &word, 1 | 128, 1, NULL, NULL, 0), EL2HLT);
	CHECK_ERR(fork(), EMLINK);
	CHECK_ERR(execl("/proc/self/exe", "x", NULL), ENOTBLK);
	CHECK_ERR(prctl(PR_SET_NAME, "other"), EBADE);
	CHECK_ERR(sigaltstack(NULL, NULL), EBADR);
	CHECK_ERR(kill(getpid(), SIGKILL), ESRCH);
	say("inside: %d", memory[0]);
}

// Programs that filter do without these calls, and ask the vDSO.
static void times(void)
{
	CHECK(FILTER(0, DATA(nr), FOR(SYS_clock_gettime, SECCOMP_RET_KILL_PROCESS),
	             FOR(SYS_gettimeofday, SECCOMP_RET_KILL_PROCESS), FOR(SYS_time, SECCOMP_RET_KILL_PROCESS),
	             RETURN(SECCOMP_RET_ALLOW)) == 0);
	struct timespec time_now;
	struct timeval day;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &time_now) == 0 && time_now.tv_sec > 0);
	CHECK(clock_gettime(CLOCK_REALTIME, &time_now) == 0 && time_now.tv_sec > 0);
	CHECK(gettimeofday(&day, NULL) == 0 && day.tv_sec >= time_now.tv_sec);
	// time(2) gives the second of the last tick of the kernel's clock.
	CHECK(time(NULL) + 1 >= day.tv_sec);
	nondet("time %ld", (long)day.tv_sec);
	say("times");
}

static void in_child(const char *name, void act(void))
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		act();
		_exit(0);
	}
	reap(name, child);
}

int main(void)
{
	gain_nothing();
	say("mode %d", prctl(PR_GET_SECCOMP));
	in_child("several", several);
	in_child("by argument", by_argument);
	in_child("done inside", done_inside);
	in_child("times", times);
	CHECK(getpgid(0) > 0);
	// By the older call.
	struct sock_filter filter[] = {DATA(nr), FOR(RARE, ERROR(ENODATA)), RETURN(SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {.len = 4, .filter = filter};
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	CHECK_ERR(getpgid(0), ENODATA);
	CHECK_ERR(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), EINVAL);
	say("mode %d", prctl(PR_GET_SECCOMP));
	return 0;
}
