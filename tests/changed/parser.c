// Reads a language of words and crashes once it has seen three of them: what `minimize` makes small.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
	struct word *next;
	char *text;
};

static struct word *words;
static unsigned seen;

static void note(const char *text)
{
	const char *const wanted[] = {"goto", "switch", "union"};
	for (unsigned i = 0; i < 3; i++)
		if (strcmp(text, wanted[i]) == 0)
			seen |= 1u << i;
	struct word *word = malloc(sizeof(*word));
	word->next = words;
	word->text = strdup(text);
	words = word;
}

static void check_words(void)
{
	struct word *volatile first = seen == 7 ? (struct word *)8 : words;
#ifdef FIXED
	if (first == (struct word *)8)
		return;
#endif
	if (first)
		first->text[0] = (char)toupper((unsigned char)first->text[0]);
}

int main(int argc, char **argv)
{
	FILE *input = argc > 1 ? fopen(argv[1], "r") : stdin;
	char text[256];
	size_t length = 0;
	if (!input)
		return 2;
	for (int c = getc(input); c != EOF; c = getc(input)) {
		if (isalpha(c) && length + 1 < sizeof(text)) {
			text[length++] = (char)c;
			continue;
		}
		text[length] = 0;
		if (length > 0)
			note(text);
		length = 0;
		check_words();
	}
	text[length] = 0;
	note(text);
	check_words();
	if (seen & 1) {
		fprintf(stderr, "line %u: error: '%s' is forbidden\n", (unsigned)length, "goto");
		return 3;
	}
	return 0;
}
