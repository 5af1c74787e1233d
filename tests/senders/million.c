/* More than a million events of two processes that meet by a pipe, all different. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 250000 };

int main(void)
{
	int ends[2], status;
	char text[64];
	struct stat about;
	if (pipe(ends) != 0)
		return 1;
	if (fork() == 0) {
		close(ends[1]);
		while (read(ends[0], text, 16) > 0)
			;
		_exit(0);
	}
	close(ends[0]);
	for (unsigned round = 0; round < ROUNDS; round++) {
		snprintf(text, sizeof text, "/tmp/%u-%u", round, round * 2654435761u);
		if (access(text, F_OK) == 0 || fstat(ends[1], &about) != 0)
			return 1;
		if (write(ends[1], text, 16) != 16)
			return 1;
	}
	close(ends[1]);
	return wait(&status) < 0;
}
