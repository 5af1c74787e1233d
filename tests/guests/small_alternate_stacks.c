// An alternate stack that is too small for a signal's frame: SIGSEGV comes instead, nothing
// beyond the stack is written, and who cannot take SIGSEGV dies of it.
// covers: sigaltstack rt_sigaction rt_sigreturn
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>

enum { BELOW = 16 << 10, BYTES_MIN = 2048, BYTES_MAX = 32 << 10 };

static sigjmp_buf back;
static unsigned char *area;
static volatile sig_atomic_t handled;

static void on_user(int number)
{
	handled = number;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	static int told;
	handled = number;
	if (!told++)
		say("instead: signal %d, code %#x, address %p", number, info->si_code, info->si_addr);
	siglongjmp(back, 1);
}

static void use(size_t bytes, unsigned flags)
{
	stack_t stack = {.ss_sp = area + BELOW, .ss_size = bytes, .ss_flags = flags};
	CHECK(sigaltstack(&stack, NULL) == 0);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
	CHECK(sigaction(number, &action, NULL) == 0);
}

// True if the handler ran on a stack of that many bytes.
static int fits(size_t bytes)
{
	memset(area, 0x5a, BELOW);
	use(bytes, 0);
	handled = 0;
	if (sigsetjmp(back, 1) == 0)
		raise(SIGUSR1);
	for (int i = 0; i < BELOW; i++)
		CHECK(area[i] == 0x5a);
	CHECK(handled == SIGUSR1 || handled == SIGSEGV);
	return handled == SIGUSR1;
}

static void smallest(void)
{
	size_t bytes = BYTES_MIN;
	int refused = 0;
	while (bytes < BYTES_MAX && !fits(bytes)) {
		refused++;
		bytes += 16;
	}
	say("some are too small: %d, one is not: %d", refused > 0, bytes < BYTES_MAX);
	nondet("the smallest has %zu bytes", bytes);
}

static void raise_again(int number, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	raise(number);
}

static void overflowing(void)
{
	handle(SIGUSR1, raise_again, SA_ONSTACK | SA_NODEFER);
	use(BYTES_MAX, 0);
	raise(SIGUSR1);
}

static void without_handler(void)
{
	signal(SIGSEGV, SIG_DFL);
	use(BYTES_MIN, 0);
	raise(SIGUSR1);
}

static void ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	use(BYTES_MIN, 0);
	raise(SIGUSR1);
}

static void blocked(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, NULL);
	use(BYTES_MIN, 0);
	raise(SIGUSR1);
}

// The handler's own stack is the one that is too small.
static void same_stack(void)
{
	handle(SIGSEGV, on_fault, SA_ONSTACK);
	use(BYTES_MIN, 0);
	raise(SIGUSR1);
}

static void in_child(const char *name, void (*run)(void))
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		run();
		_exit(3);
	}
	reap(name, pid);
}

static void tell_stack(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	stack_t now;
	CHECK(sigaltstack(NULL, &now) == 0);
	say("in the handler: flags %#x, %zu bytes", now.ss_flags, now.ss_size);
}

int main(void)
{
	area = mmap(NULL, BELOW + BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED);
	struct sigaction user = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
	CHECK(sigaction(SIGUSR1, &user, NULL) == 0);
	handle(SIGSEGV, on_fault, 0);
	smallest();
	in_child("overflowing", overflowing);
	in_child("without a handler", without_handler);
	in_child("ignored", ignored);
	in_child("blocked", blocked);
	in_child("on the same stack", same_stack);
	handle(SIGUSR2, tell_stack, 0);
	use(BYTES_MAX, 1u << 31);
	raise(SIGUSR2);
	return 0;
}
