// Filters that send SIGSYS in place of a call: a handler sees what was called and answers
// for the kernel; without one the process dies, as it does by the stronger actions.
// covers: seccomp
#include "filters.h"
#include <pthread.h>
#include <sys/resource.h>
#include <ucontext.h>

static volatile int calls, wrong;

static void answer(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	calls++;
	wrong |= number != SIGSYS || info->si_code != 1 || info->si_arch != AUDIT_ARCH_X86_64;
	wrong |= registers[REG_RAX] != info->si_syscall;
	wrong |= (greg_t)info->si_call_addr != registers[REG_RIP];
	wrong |= registers[REG_RCX] != registers[REG_RIP];
	// The first two arguments and the data together.
	registers[REG_RAX] = registers[REG_RDI] * 10000 + registers[REG_RSI] * 100 + info->si_errno;
}

static void on_user_signal(int number)
{
	calls += 100 * number;
}

static void take(int flags, void handler(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
	sigemptyset(&action.sa_mask);
	CHECK(sigaction(SIGSYS, &action, NULL) == 0);
}

static void trap_rare(int data)
{
	CHECK(FILTER(0, DATA(nr), FOR(RARE, SECCOMP_RET_TRAP | data), FOR(SYS_openat, SECCOMP_RET_TRAP | 3),
	             RETURN(SECCOMP_RET_ALLOW)) == 0);
}

static void answered(void)
{
	take(0, answer);
	trap_rare(42);
	for (long index = 0; index < 5; index++)
		CHECK(syscall(RARE, index, index + 1) == index * 10000 + (index + 1) * 100 + 42);
	nondet("openat %ld", (long)openat(0, "/nowhere", 0));
	say("answered %d, wrong %d", calls, wrong);
	// From a place of its own each time, so that no site has been rewritten.
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "0"((long)RARE), "D"(1l), "S"(2l) : "rcx", "r11", "memory");
	__asm__ volatile("syscall" : "=a"(result) : "0"((long)RARE), "D"(result), "S"(2l) : "rcx", "r11", "memory");
	say("inline %ld", result);
	// With a signal that waits for the handler to end.
	signal(SIGUSR1, on_user_signal);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	CHECK(syscall(RARE, 1, 1) == 10142);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	say("answered %d, wrong %d", calls, wrong);
}

static void without_handler(void)
{
	trap_rare(1);
	getpgid(0);
	say("lived");
}

static void ignored(void)
{
	signal(SIGSYS, SIG_IGN);
	without_handler();
}

static void blocked(void)
{
	take(0, answer);
	sigset_t set;
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	without_handler();
}

static void once(void)
{
	take(SA_RESETHAND, answer);
	trap_rare(7);
	say("first %d", getpgid(1));
	getpgid(1);
}

static void on_kill(void)
{
	take(0, answer);
	CHECK(FILTER(0, DATA(nr), FOR(RARE, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW)) == 0);
	getpgid(0);
}

static void on_unknown(void)
{
	CHECK(FILTER(0, DATA(nr), FOR(RARE, 0x00010000), RETURN(SECCOMP_RET_ALLOW)) == 0);
	getpgid(0);
}

static void on_division(void)
{
	CHECK(FILTER(0, DATA(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RARE, 0, 1),
	             BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), RETURN(SECCOMP_RET_ALLOW)) == 0);
	getpgid(0);
}

static void only_thread(void)
{
	CHECK(FILTER(0, DATA(nr), FOR(RARE, SECCOMP_RET_KILL_THREAD), RETURN(SECCOMP_RET_ALLOW)) == 0);
	getpgid(0);
}

static void *killed_thread(void *argument)
{
	CHECK(FILTER(0, DATA(nr), FOR(RARE, SECCOMP_RET_KILL_THREAD), RETURN(SECCOMP_RET_ALLOW)) == 0);
	getpgid(0);
	say("lived");
	return argument;
}

// A thread ends, and the others join it and go on.
static void one_of_many(void)
{
	pthread_t threads[3];
	for (int index = 0; index < 3; index++)
		CHECK(pthread_create(&threads[index], NULL, killed_thread, NULL) == 0);
	for (int index = 0; index < 3; index++)
		CHECK(pthread_join(threads[index], NULL) == 0);
	say("joined; %d", getpgid(0) > 0);
	_exit(3);
}

static void *killing_thread(void *argument)
{
	on_kill();
	return argument;
}

static void all_of_many(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, killing_thread, NULL) == 0);
	for (;;)
		pause();
}

static void strict(void)
{
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
	if (write(1, "strict\n", 7) == 7)
		getpid();
	syscall(SYS_exit, 4);
}

static void strict_exit(void)
{
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
	if (write(1, "strict\n", 7) == 7)
		syscall(SYS_exit, 5);
}

static void strict_killed(void)
{
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
	syscall(SYS_getuid);
	syscall(SYS_exit, 5);
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
	struct rlimit none = {0};
	CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	in_child("answered", answered);
	in_child("no handler", without_handler);
	in_child("ignored", ignored);
	in_child("blocked", blocked);
	in_child("once", once);
	in_child("killed", on_kill);
	in_child("unknown action", on_unknown);
	in_child("division", on_division);
	in_child("only thread", only_thread);
	in_child("one thread of many", one_of_many);
	in_child("all threads", all_of_many);
	in_child("strict", strict);
	in_child("strict, exit", strict_exit);
	in_child("strict, killed", strict_killed);
	return 0;
}
