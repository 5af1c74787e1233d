// A program asks what a rollback would not restore, and is told afterwards what it did not.
// prints: nothing would be lost
// prints: would be lost: 2 lines
// prints: descriptor N: the 3 bytes that were written to it since stay written
// prints: descriptor N: it was closed since, and what it was cannot be opened again
// prints: lost: 2 lines, the same
// prints: then nothing
#include "live.h"

static char said[1024];

// Prints a list, without the numbers of descriptors.
static int show(const char *text)
{
	int lines = 0;
	for (const char *end; (end = strchr(text, '\n')); text = end + 1, lines++) {
		int begin = 0;
		CHECK(sscanf(text, "descriptor %*d%n", &begin) == 0 && begin > 0);
		say("descriptor N%.*s", (int)(end - text) - begin, text + begin);
	}
	CHECK(*text == 0);
	return lines;
}

static int lines_of(const char *text)
{
	int lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void bad_calls(int id)
{
	static char text[8];
	errno = 0;
	CHECK(rv_check(id + 100, text, sizeof text) == -1 && errno == ENOENT);
	CHECK(rv_lost(id + 100, text, sizeof text) == -1 && errno == ENOENT);
	CHECK(rv_check(id, (char *)16, 8) == -1 && errno == EFAULT);
	CHECK(rv_lost(id, (char *)16, 8) == -1 && errno == EFAULT);
	CHECK(text[0] == 0);
}

int main(void)
{
	need_session();
	// What is written to the guest's own output would be in the list, too: it is kept until
	// the end.
	int out[2], pair[2], gone[2];
	CHECK(pipe(out) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, gone) == 0);

	int id = checkpoint();
	int round = rv_rollbacks(id);
	if (round == 0) {
		bad_calls(id);
		CHECK(rv_check(id, NULL, 0) == 0 && rv_lost(id, NULL, 0) == 0);
		strcpy(said, "?");
		CHECK(rv_check(id, said, sizeof said) == 0 && said[0] == 0);
		write_all(pair[0], "abc", 3);
		CHECK(close(gone[0]) == 0);
		int length = rv_check(id, said, sizeof said);
		CHECK(length > 0 && (size_t)length == strlen(said) && lines_of(said) == 2);
		// As much as fits.
		char part[16];
		CHECK(rv_check(id, part, sizeof part) == length);
		CHECK(strlen(part) == sizeof part - 1 && strncmp(part, said, sizeof part - 1) == 0);
		CHECK(rv_check(id, part, 1) == length && part[0] == 0);
		// What was said goes back with the rest of memory.
		write_all(out[1], said, (size_t)length + 1);
		back(id);
	}
	if (round == 1) {
		CHECK(said[0] == 0);
		char text[1024], before[1024];
		int length = rv_lost(id, text, sizeof text);
		CHECK(length > 0 && (size_t)length == strlen(text));
		// What was written to the pipe was one more.
		CHECK(lines_of(text) == 3);
		ssize_t got = read(out[0], before, sizeof before);
		CHECK(got > 0 && before[got - 1] == 0);
		say("nothing would be lost");
		say("would be lost: %d lines", lines_of(before));
		CHECK(show(before) == 2);
		// Without that of the pipe, it is the same.
		char *line = strstr(text, "stay written\n");
		CHECK(line);
		int kept = 0;
		char *rest = before;
		for (char *next; (next = strchr(rest, '\n')); rest = next + 1) {
			char one[256];
			CHECK(snprintf(one, sizeof one, "%.*s", (int)(next - rest), rest) < (int)sizeof one);
			kept += strstr(text, one) != NULL;
		}
		say("lost: %d lines, %s", kept, kept == 2 ? "the same" : "others");
		// The pipe's end is not lost once more.
		int later = checkpoint();
		if (first_time(later))
			back(later);
		CHECK(rv_lost(later, text, sizeof text) == 0 && text[0] == 0);
		say("then nothing");
	}
	return 0;
}
