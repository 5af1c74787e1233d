// A handler reports progress from two numbers that the program changes one after the other.
#include "corpus.h"

static volatile int files, bytes;

static void report(int unused)
{
	(void)unused;
	if (bytes != files * 100)
		caught("half of a change was reported");
}

int main(void)
{
	signal(SIGUSR1, report);
	pid_t parent = getpid();
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		for (int i = 0; i < 5; i++)
			kill(parent, SIGUSR1);
		_exit(0);
	}
	for (int i = 0; i < 2000; i++) {
		files++;
		bytes += 100;
	}
	int status;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return 0;
}
