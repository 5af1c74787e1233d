// Fails for one word of its input, and only before a time that it is given, or with one in 64 random numbers.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

int main(int argc, char **argv)
{
	char word[64];
	uint16_t number = 1;
	int fails = 0;
	if (argc > 1)
		fails = time(NULL) < atol(argv[1]);
	else if (getrandom(&number, sizeof(number), 0) == sizeof(number))
		fails = number % 64 == 0;
	while (scanf("%63s", word) == 1) {
		if (fails && strcmp(word, "bad") == 0) {
			fputs("error: a bad word at a bad time\n", stderr);
			return 4;
		}
	}
	return 0;
}
