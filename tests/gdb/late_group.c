// Processes that come to share memory one after another, by a file that each of them maps for itself: nothing is
// shared when they are made.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 3, EACH = 100 };

static volatile long *counter;
static char name[] = "/tmp/late_group_XXXXXX";

static void map_it(void)
{
	int file = open(name, O_RDWR);
	counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (counter == MAP_FAILED)
		exit(2);
}

static void add(long value)
{
	*counter += value;
}

// Says that it has the file mapped, and goes on when the one behind it has, too.
static void in_child(int says, int waits)
{
	char byte = 0;
	map_it();
	for (int i = 0; i < EACH; i++)
		add(1);
	if (write(says, &byte, 1) != 1 || read(waits, &byte, 1) != 1)
		exit(3);
	_exit(0);
}

int main(void)
{
	int says[2], waits[2];
	int file = mkstemp(name);
	char byte = 0;
	if (ftruncate(file, sizeof *counter) != 0 || close(file) != 0 || pipe(says) != 0 || pipe(waits) != 0)
		return 1;
	for (int child = 0; child < CHILDREN; child++) {
		if (fork() == 0)
			in_child(says[1], waits[0]);
		if (read(says[0], &byte, 1) != 1)
			return 4;
	}
	map_it();
	add(33);
	for (int child = 0; child < CHILDREN; child++)
		if (write(waits[1], &byte, 1) != 1)
			return 5;
	while (wait(NULL) > 0)
		continue;
	printf("ends with %ld\n", *counter);
	unlink(name);
	return 0;
}
