// What was read from a pipe or a socket comes again in its order, whichever of several descriptors
// of it read it, then and now. One that was closed since is open again if a copy is.
// prints: pipe: abcdef
// prints: pipe: abcdefgh
// prints: socket: abcdefgh
// prints: terminal: one two
// prints: closed: abc, nothing lost
// prints: then the end
#include "live.h"
#include <pty.h>
#include <termios.h>

static int copy_of(int fd)
{
	int copy = dup(fd);
	CHECK(copy >= 0);
	return copy;
}

// Three descriptors of the same read two bytes each, one of them made since.
static void in_order(const char *name, int reader, int writer)
{
	int other = copy_of(reader);
	char text[16] = "";
	write_all(writer, "abcdef", 6);
	int id = checkpoint();
	if (first_time(id)) {
		int since = fcntl(other, F_DUPFD_CLOEXEC, 40);
		CHECK(since >= 40);
		read_all(reader, text, 2);
		read_all(since, text + 2, 2);
		read_all(other, text + 4, 2);
		write_all(writer, "gh", 2);
		back(id);
	}
	// One of another number, and others that are closed, before all is read.
	int since = copy_of(other);
	read_all(since, text, 3);
	CHECK(close(since) == 0 && close(other) == 0);
	struct pollfd ready = {.fd = reader, .events = POLLIN};
	CHECK(poll(&ready, 1, 0) == 1 && ready.revents == POLLIN);
	CHECK(dup2(reader, reader) == reader);
	read_all(reader, text + 3, 3);
	if (strcmp(name, "pipe") == 0)
		say("%s: %s", name, text);
	read_all(reader, text + 6, 2);
	say("%s: %s", name, text);
	forget(id);
}

// Two opens of a terminal have one input.
static void terminal(void)
{
	int master, slave;
	char name[64], text[16] = "";
	CHECK(openpty(&master, &slave, name, NULL, NULL) == 0);
	struct termios settings;
	CHECK(tcgetattr(slave, &settings) == 0);
	settings.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
	int other = open(name, O_RDWR | O_NOCTTY);
	CHECK(other >= 0);
	write_all(master, "one two", 7);
	int id = checkpoint();
	if (first_time(id)) {
		read_all(slave, text, 4);
		read_all(other, text, 3);
		back(id);
	}
	read_all(other, text, 7);
	say("terminal: %s", text);
	forget(id);
	CHECK(close(master) == 0 && close(slave) == 0 && close(other) == 0);
}

static void closed(void)
{
	int ends[2];
	char text[256] = "";
	CHECK(pipe(ends) == 0);
	write_all(ends[1], "abc", 3);
	int id = checkpoint();
	if (first_time(id)) {
		// As shells redirect.
		CHECK(dup2(ends[0], 50) == 50 && close(ends[0]) == 0);
		read_all(50, text, 2);
		back(id);
	}
	CHECK(is_open(ends[0]) && !is_open(50));
	expect_input(ends[0], "abc");
	CHECK(rv_lost(id, text, sizeof text) >= 0);
	say("closed: abc, %s", strstr(text, "closed since") ? text : "nothing lost");
	forget(id);
	CHECK(close(ends[1]) == 0 && read(ends[0], text, 1) == 0);
	say("then the end");
}

int main(void)
{
	need_session();
	int ends[2];
	CHECK(pipe(ends) == 0);
	in_order("pipe", ends[0], ends[1]);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	in_order("socket", ends[0], ends[1]);
	terminal();
	closed();
	return 0;
}
