// Modes of a terminal that were set since a checkpoint are what they were after a rollback, also
// where they were set at once, and where the terminal was closed for a copy of it.
// prints: 20 times what they were
// prints: a copy: what they were
#include "live.h"
#include <termios.h>

static struct termios modes_of(int fd)
{
	struct termios modes;
	memset(&modes, 0, sizeof modes);
	CHECK(tcgetattr(fd, &modes) == 0);
	return modes;
}

static void set_raw(int fd)
{
	struct termios modes = modes_of(fd);
	cfmakeraw(&modes);
	modes.c_cc[VINTR] = 1;
	CHECK(tcsetattr(fd, TCSANOW, &modes) == 0);
}

static int equal(struct termios one, struct termios other)
{
	return memcmp(&one, &other, sizeof one) == 0;
}

int main(void)
{
	need_session();
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	CHECK(slave >= 0);
	struct termios before = modes_of(slave);
	int count = 0;
	for (int round = 0; round < 20; round++) {
		int id = checkpoint();
		if (first_time(id)) {
			set_raw(slave);
			back(id);
		}
		count += equal(modes_of(slave), before);
		forget(id);
	}
	say("%d times what they were", count);
	set_raw(slave);
	before = modes_of(slave);
	int id = checkpoint();
	if (first_time(id)) {
		struct termios cooked = modes_of(slave);
		cooked.c_lflag |= ICANON | ECHO;
		CHECK(tcsetattr(slave, TCSANOW, &cooked) == 0);
		CHECK(dup2(slave, 60) == 60 && close(slave) == 0);
		back(id);
	}
	CHECK(equal(modes_of(slave), before) && !is_open(60));
	say("a copy: what they were");
	return 0;
}
