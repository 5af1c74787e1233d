// What the guests that are built with sanitizers share: a child's report, of which only
// what is the same in each run is shown.
#ifndef SANITIZER_H
#define SANITIZER_H
#include "threads.h"

// Runs the body in a child; shows how it ended, and which of the words its report holds.
GUEST_FN void report_of(const char *what, int (*body)(void), const char *const *words)
{
	static char report[1 << 16];
	int ends[2];
	fflush(stdout);
	CHECK(pipe(ends) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(dup2(ends[1], 2) == 2);
		close(ends[0]);
		close(ends[1]);
		exit(body());
	}
	close(ends[1]);
	size_t bytes = 0;
	ssize_t got;
	while ((got = read(ends[0], report + bytes, sizeof report - 1 - bytes)) > 0)
		bytes += got;
	report[bytes] = 0;
	close(ends[0]);
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	say("%s: %x", what, status);
	for (; *words; words++)
		say("  %s: %s", *words, strstr(report, *words) ? "yes" : "no");
}

#endif
