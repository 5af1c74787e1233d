// Output to stdout and stderr in turns, from several processes, in large and small pieces.
// covers: write writev
#include "guest.h"

int main(void)
{
	for (int i = 0; i < 50; i++) {
		printf("out %d\n", i);
		fprintf(stderr, "err %d\n", i);
		if (i % 10 == 0) {
			pid_t child = fork();
			if (child == 0) {
				printf("child out %d\n", i);
				fprintf(stderr, "child err %d\n", i);
				_exit(0);
			}
			CHECK(waitpid(child, NULL, 0) == child);
		}
	}
	char *large = malloc(300000);
	for (int i = 0; i < 300000; i++)
		large[i] = i % 80 == 79 ? '\n' : 'a' + i % 26;
	for (int at = 0; at < 300000;) {
		ssize_t put = write(1, large + at, 300000 - at);
		CHECK(put > 0);
		at += put;
	}
	CHECK(write(1, "\0\1\2\377", 4) == 4);
	CHECK(write(1, "no end of line", 14) == 14);
	return 0;
}
