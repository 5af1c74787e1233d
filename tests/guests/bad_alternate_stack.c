// A signal whose alternate stack is not there kills, whether the signal was sent
// or is a fault; only one that wants no such stack is handled.
// covers: sigaltstack rt_sigaction
#include "guest.h"
#include <sys/mman.h>

enum way { SENT, FAULT, SENT_WITHOUT };

static void handler(int number)
{
	static const char text[] = "handled\n";
	CHECK(number == SIGUSR1);
	CHECK(write(1, text, sizeof text - 1) > 0);
}

static void child(void *memory, enum way way)
{
	stack_t stack = {.ss_sp = memory, .ss_size = 64 << 10};
	struct sigaction action = {.sa_handler = handler, .sa_flags = way == SENT_WITHOUT ? 0 : SA_ONSTACK};
	CHECK(sigaltstack(&stack, NULL) == 0);
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	if (way == FAULT)
		*(volatile int *)BAD = 1;
	else
		raise(SIGUSR1);
	_exit(3);
}

static void both(const char *name, void *memory, enum way way)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		child(memory, way);
	reap(name, pid);
}

int main(void)
{
	void *forbidden = mmap(NULL, 64 << 10, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *read_only = mmap(NULL, 64 << 10, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(forbidden != MAP_FAILED && read_only != MAP_FAILED);
	both("sent, nothing there", (void *)0x10000, SENT);
	both("fault, nothing there", (void *)0x10000, FAULT);
	both("sent, forbidden", forbidden, SENT);
	both("fault, forbidden", forbidden, FAULT);
	both("sent, read-only", read_only, SENT);
	both("fault, read-only", read_only, FAULT);
	both("on the usual stack", (void *)0x10000, SENT_WITHOUT);
	return 0;
}
