// A process goes back alone, and talked since with one that stays as it is: each such descriptor is
// named, with the process, beforehand and afterwards. One with which it did not talk is not.
// prints: would be lost: descriptor A: process P, at its other end, does not go back: it had 3 bytes since, and the 6 that it answered are read again
// prints: would be lost: descriptor B: process P, at its other end, does not go back: it had 5 bytes since
// prints: lost: descriptor A: process P, at its other end, does not go back: it had 3 bytes since, and the 6 that it answered are read again
// prints: lost: descriptor B: process P, at its other end, does not go back: it had 5 bytes since
// prints: the answer came again
#include "live.h"

// Prints the lines about other processes, with names in place of numbers.
static void show(const char *what, const char *text, int a, int b, pid_t child)
{
	int numbers[] = {a, b};
	for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
		if (!memmem(text, (size_t)(end - text), "at its other end", 16))
			continue;
		int fd = 0, pid = 0, begin = 0;
		CHECK(sscanf(text, "descriptor %d: process %d,%n", &fd, &pid, &begin) == 2 && begin > 0);
		CHECK(pid == child && (fd == numbers[0] || fd == numbers[1]));
		say("%s: descriptor %c: process P,%.*s", what, fd == a ? 'A' : 'B', (int)(end - text) - begin,
		    text + begin);
	}
	CHECK(*text == 0);
}

int main(void)
{
	need_session();
	int ask[2], one_way[2], silent[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ask) == 0 && pipe(one_way) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, silent) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(close(ask[0]) == 0 && close(one_way[1]) == 0 && close(silent[0]) == 0);
		char got[8];
		while (read(ask[1], got, 3) == 3)
			write_all(ask[1], "answer", 6);
		_exit(0);
	}
	CHECK(close(ask[1]) == 0 && close(one_way[0]) == 0 && close(silent[1]) == 0);
	// Nothing is printed before the end: that would be in the lists.
	static char before[4096], after[4096], got[8];
	int kept[2];
	CHECK(pipe(kept) == 0);
	int id = checkpoint();
	if (first_time(id)) {
		write_all(ask[0], "ask", 3);
		write_all(one_way[1], "bytes", 5);
		CHECK(read(ask[0], got, 6) == 6 && memcmp(got, "answer", 6) == 0);
		int length = rv_check(id, before, sizeof before);
		CHECK(length > 0);
		write_all(kept[1], before, (size_t)length + 1);
		back(id);
	}
	CHECK(read(kept[0], before, sizeof before) > 0);
	CHECK(rv_lost(id, after, sizeof after) > 0);
	show("would be lost", before, ask[0], one_way[1], child);
	show("lost", after, ask[0], one_way[1], child);
	// Nobody has asked.
	CHECK(read(ask[0], got, 6) == 6 && memcmp(got, "answer", 6) == 0);
	say("the answer came again");
	CHECK(close(ask[0]) == 0);
	CHECK(waitpid(child, NULL, 0) == child);
	return 0;
}
