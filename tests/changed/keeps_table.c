// Keeps the words that it reads in a file of its own, and fails for one that is in there: a run that finds what an
// earlier one wrote fails otherwise.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	char word[64], known[64];
	int fd = access("table", F_OK) == 0 ? -1 : open("table", O_RDWR | O_CREAT, 0644);
	FILE *table = fd < 0 ? NULL : fdopen(fd, "r+");
	if (!table) {
		fputs("error: there is a table\n", stderr);
		return 3;
	}
	while (scanf("%63s", word) == 1) {
		close(open("journal", O_RDWR | O_CREAT, 0600));
		rewind(table);
		while (fscanf(table, "%63s", known) == 1) {
			if (strcmp(word, known) == 0) {
				fputs("error: this word is there already\n", stderr);
				return 4;
			}
		}
		fseek(table, 0, SEEK_END);
		fprintf(table, "%s\n", word);
		fflush(table);
		unlink("journal");
	}
	return 0;
}
