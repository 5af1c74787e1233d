// A handler and the program count in the same variable.
#include "corpus.h"

static volatile long counted;

static void on_signal(int number)
{
	(void)number;
	counted++;
}

int main(void)
{
	signal(SIGUSR1, on_signal);
	pid_t parent = getpid(), child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		for (int i = 0; i < 3; i++)
			kill(parent, SIGUSR1);
		_exit(0);
	}
	long own = 0, before;
	while (waitpid(child, NULL, WNOHANG) == 0) {
		before = counted;
		counted++;
		own++;
		if (counted < before + 1)
			caught("counting went back");
		counted--;
		own--;
	}
	// A count of the handler between the load and the store of ours is lost.
	sigset_t pending;
	sigpending(&pending);
	(void)own;
	if (counted < 1 || counted > 3)
		caught("counts of the handler were lost");
	return 0;
}
