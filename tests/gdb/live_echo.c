/* Answers each line of its input with its number, computes a while between them if it is
 * told to, and ends with its input. */
#include <stdio.h>
#include <unistd.h>

static int lines;
static volatile unsigned long turns;

static void answer(char first)
{
	char text[40];
	int length = snprintf(text, sizeof text, "line %d begins with %c\n", ++lines, first);
	write(1, text, length);
}

int main(void)
{
	char line[64];
	write(1, "ready\n", 6);
	for (;;) {
		ssize_t count = read(0, line, sizeof line);
		if (count <= 0)
			break;
		answer(line[0]);
		while (line[0] == 's')
			turns++;
	}
	return lines;
}
