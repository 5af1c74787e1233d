// Two processes read a number from a file, and write the next one to it, without a lock.
#include "corpus.h"

enum { COUNTS = 3 };

static void count(int file)
{
	for (int i = 0; i < COUNTS; i++) {
		long number = 0;
		must(pread(file, &number, sizeof number, 0) >= 0, "pread");
		number++;
		must(pwrite(file, &number, sizeof number, 0) == sizeof number, "pwrite");
	}
}

int main(void)
{
	int file = memfd_create("numbers", 0), state;
	must(file >= 0, "memfd_create");
	pid_t child = fork();
	must(child >= 0, "fork");
	count(file);
	if (child == 0)
		_exit(0);
	must(waitpid(child, &state, 0) == child, "waitpid");
	long number = 0;
	must(pread(file, &number, sizeof number, 0) == sizeof number, "pread");
	if (number != 2 * COUNTS)
		caught("a number was written twice");
	return 0;
}
