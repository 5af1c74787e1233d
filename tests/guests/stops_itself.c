// A process that stops itself while another one with which it shares memory goes on.
// covers: kill tgkill tkill
#include "threads.h"
#include <sys/mman.h>

static void stop(int way)
{
	if (way == 0)
		kill(getpid(), SIGSTOP);
	else if (way == 1)
		syscall(SYS_tgkill, getpid(), own_tid(), SIGSTOP);
	else if (way == 2)
		syscall(SYS_tkill, own_tid(), SIGTSTP);
	else
		raise(SIGTTIN);
}

int main(void)
{
	atomic_int *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(words != MAP_FAILED);
	for (int way = 0; way < 4; way++) {
		pid_t child = fork();
		if (child == 0) {
			CHECK(setpgid(0, 0) == 0);
			atomic_fetch_add(&words[0], 1);
			stop(way);
			atomic_fetch_add(&words[0], 10);
			stop(way);
			atomic_fetch_add(&words[0], 100);
			_exit(way);
		}
		int status;
		for (int i = 0; i < 2; i++) {
			CHECK(waitpid(child, &status, WUNTRACED) == child);
			say_status("child", status);
			say("it came to %d", atomic_load(&words[0]));
			CHECK(kill(child, SIGCONT) == 0);
		}
		reap("child", child);
		say("in the end %d", atomic_exchange(&words[0], 0));
	}
	return 0;
}
