// Pseudo-terminals: line discipline, sizes, sessions, job control, Ctrl-C from the master.
// covers: ioctl
#include "guest.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

static volatile int windows;

static void on_winch(int number)
{
	(void)number;
	windows++;
}

static int open_master(char *name, size_t size)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), unlock = 0, number;
	CHECK(master >= 0);
	CHECK(ioctl(master, TIOCSPTLCK, &unlock) == 0);
	CHECK(ioctl(master, TIOCGPTN, &number) == 0);
	snprintf(name, size, "/dev/pts/%d", number);
	nondet("terminal %s", name);
	return master;
}

// Reads until the text ends with this mark.
static void read_until(int fd, const char *mark, char *text, size_t size)
{
	size_t at = 0;
	text[0] = 0;
	while (!strstr(text, mark)) {
		ssize_t got = read(fd, text + at, size - 1 - at);
		CHECK(got > 0);
		at += got;
		text[at] = 0;
	}
}

static void print_escaped(const char *what, const char *text)
{
	printf("%s: ", what);
	for (; *text; text++)
		if (*text >= ' ')
			putchar(*text);
		else
			printf("\\%o", *text);
	putchar('\n');
}

static void session(const char *name)
{
	char line[64];
	struct winsize size;
	CHECK(setsid() == getpid());
	int fd = open(name, O_RDWR);
	CHECK(fd >= 0);
	CHECK(ioctl(fd, TIOCSCTTY, 0) == 0 || errno == EPERM);
	CHECK(tcgetsid(fd) == getpid() && tcgetpgrp(fd) == getpgrp());
	CHECK(ioctl(fd, TIOCGWINSZ, &size) == 0);
	dprintf(fd, "size %dx%d tty %d\n", size.ws_col, size.ws_row, isatty(fd));
	CHECK(read(fd, line, sizeof line) == 6);
	dprintf(fd, "got %.5s\n", line);
	struct sigaction action = {.sa_handler = on_winch};
	CHECK(sigaction(SIGWINCH, &action, NULL) == 0);
	// Blocked but in ppoll, so that it cannot come between the look and the wait.
	sigset_t winch, before;
	sigemptyset(&winch);
	sigaddset(&winch, SIGWINCH);
	CHECK(sigprocmask(SIG_BLOCK, &winch, &before) == 0);
	dprintf(fd, "resize me\n");
	struct pollfd typed = {fd, POLLIN, 0};
	while (windows == 0)
		CHECK_ERR(ppoll(&typed, 1, NULL, &before), EINTR);
	CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
	CHECK(ioctl(fd, TIOCGWINSZ, &size) == 0);
	dprintf(fd, "now %dx%d\n", size.ws_col, size.ws_row);
	// A background group that reads is stopped; in the foreground it goes on.
	int status;
	pid_t job = fork();
	if (job == 0) {
		setpgid(0, 0);
		_exit(read(fd, line, sizeof line) == 5 ? 3 : 4);
	}
	setpgid(job, job);
	CHECK(waitpid(job, &status, WUNTRACED) == job);
	dprintf(fd, "job stopped by %d\n", WSTOPSIG(status));
	signal(SIGTTOU, SIG_IGN);
	CHECK(tcsetpgrp(fd, job) == 0);
	CHECK(kill(-job, SIGCONT) == 0);
	dprintf(fd, "job runs\n");
	CHECK(waitpid(job, &status, 0) == job);
	CHECK(tcsetpgrp(fd, getpgrp()) == 0);
	dprintf(fd, "job exit %d\n", WEXITSTATUS(status));
	signal(SIGINT, SIG_DFL);
	dprintf(fd, "interrupt me\n");
	for (;;)
		pause();
}

int main(void)
{
	char name[64], text[1024];
	struct termios t;
	int master = open_master(name, sizeof name);
	struct winsize size = {24, 80, 0, 0};
	CHECK(ioctl(master, TIOCSWINSZ, &size) == 0);
	int slave = open(name, O_RDWR | O_NOCTTY);
	CHECK(isatty(slave));
	CHECK(tcgetattr(slave, &t) == 0);
	say("lflag %o speed %d", (unsigned)(t.c_lflag & (ICANON | ECHO | ISIG)), cfgetospeed(&t) != 0);
	t.c_lflag &= ~(ICANON | ECHO);
	t.c_cc[VMIN] = 3;
	CHECK(tcsetattr(slave, TCSANOW, &t) == 0);
	CHECK(write(master, "raw", 3) == 3);
	CHECK(read(slave, text, 10) == 3);
	t.c_lflag |= ICANON | ECHO;
	CHECK(tcsetattr(slave, TCSADRAIN, &t) == 0);
	CHECK(write(master, "typo\x7f\x7flk\n", 9) == 9);
	CHECK(read(slave, text, sizeof text) == 5);
	say("edited: %.4s", text);
	read_until(master, "lk\r\n", text, sizeof text);
	print_escaped("echo", text);
	CHECK(write(master, "more\n", 5) == 5);
	struct pollfd p = {slave, POLLIN, 0};
	int waiting = 0;
	CHECK(poll(&p, 1, -1) == 1);
	CHECK(ioctl(slave, FIONREAD, &waiting) == 0);
	say("waiting %d", waiting);
	CHECK(tcflush(slave, TCIFLUSH) == 0);
	CHECK(tcdrain(slave) == 0);
	read_until(master, "more\r\n", text, sizeof text);

	pid_t child = fork();
	if (child == 0) {
		close(master);
		close(slave);
		session(name);
	}
	read_until(master, "tty 1\r\n", text, sizeof text);
	print_escaped("session", text);
	CHECK(write(master, "hello\n", 6) == 6);
	read_until(master, "resize me\r\n", text, sizeof text);
	print_escaped("session", text);
	size.ws_col = 132;
	CHECK(ioctl(master, TIOCSWINSZ, &size) == 0);
	read_until(master, "job runs\r\n", text, sizeof text);
	print_escaped("session", text);
	CHECK(write(master, "work\n", 5) == 5);
	read_until(master, "interrupt me\r\n", text, sizeof text);
	print_escaped("session", text);
	CHECK(write(master, "\003", 1) == 1);
	reap("session leader", child);
	close(slave);
	CHECK_ERR(tcgetattr(open("/dev/null", O_RDONLY), &t), ENOTTY);
	return 0;
}
