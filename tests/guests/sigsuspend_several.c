// Several signals that wait for sigsuspend: its mask holds while their handlers begin.
// covers: rt_sigsuspend ppoll kill
#include "guest.h"
#include <poll.h>
#include <sched.h>

static char order[64];

static void on_signal(int number)
{
	char word[8];
	snprintf(word, sizeof word, " %d", number);
	strcat(order, word);
}

static void on_nested(int number)
{
	on_signal(number);
	sigset_t mask;
	CHECK(sigprocmask(0, NULL, &mask) == 0);
	strcat(order, sigismember(&mask, SIGUSR2) ? "(" : "!");
	CHECK(getppid() > 0);
	strcat(order, ")");
}

static void until_it_sleeps(pid_t pid)
{
	char name[64], text[256];
	snprintf(name, sizeof name, "/proc/%d/syscall", pid);
	for (;;) {
		int file = open(name, O_RDONLY);
		CHECK(file >= 0);
		long length = read(file, text, sizeof text - 1);
		CHECK(length > 0 && close(file) == 0);
		text[length] = 0;
		if (text[0] != 'r' && strtol(text, NULL, 10) == SYS_rt_sigsuspend)
			return;
		sched_yield();
	}
}

static void set(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};
	CHECK(sigaction(number, &action, NULL) == 0);
}

static void mask_of(sigset_t *mask, int first, int second, int third)
{
	sigemptyset(mask);
	if (first)
		sigaddset(mask, first);
	if (second)
		sigaddset(mask, second);
	if (third)
		sigaddset(mask, third);
}

int main(void)
{
	sigset_t before, during;
	int ready[2];
	char byte;
	CHECK(pipe(ready) == 0);

	// Those that all wait already: the last runs first.
	set(SIGHUP, on_signal);
	set(SIGUSR1, on_signal);
	set(SIGUSR2, on_signal);
	mask_of(&before, SIGHUP, SIGUSR1, SIGUSR2);
	CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
	raise(SIGUSR2);
	raise(SIGHUP);
	raise(SIGUSR1);
	sigemptyset(&during);
	CHECK_ERR(sigsuspend(&during), EINTR);
	say("all:%s", order);
	order[0] = 0;

	// One that only the wait blocks comes when the handler of the other is over.
	set(SIGUSR1, on_nested);
	mask_of(&before, SIGUSR1, 0, 0);
	mask_of(&during, SIGUSR2, 0, 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
		sigset_t both;
		mask_of(&both, SIGUSR1, SIGUSR2, 0);
		CHECK(sigprocmask(SIG_BLOCK, &both, NULL) == 0);
		raise(SIGUSR2);
		raise(SIGUSR1);
		mask_of(&during, SIGUSR2, 0, 0);
		CHECK_ERR(sigsuspend(&during), EINTR);
		say("still blocked:%s", order);
		CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
		say("let in:%s", order);
		order[0] = 0;

		// From outside, while it sleeps; the program's mask lets the first in.
		CHECK(write(ready[1], "r", 1) == 1);
		CHECK_ERR(sigsuspend(&during), EINTR);
		say("while asleep:%s", order);
		_exit(0);
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	until_it_sleeps(child);
	CHECK(kill(child, SIGUSR2) == 0);
	CHECK(kill(child, SIGUSR1) == 0);
	reap("child", child);
	return 0;
}
