// A process loses its locks on a file (fcntl(2)) with any of its descriptors that is closed. What
// is opened to look at a way back, or to map a file again, is not to cost it one: not for a moment,
// as somebody waits for them.
// prints: open again: WRITE 0-9
// prints: looked at: WRITE 0-9
// prints: done again: WRITE 0-9
// prints: gone back: WRITE 0-9
// prints: without a name: WRITE 0-9
// prints: nobody else had it
#include "live.h"

static char name[] = "locked-XXXXXX";
static int locked;

static void lock(int command, int type)
{
	struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET, .l_len = 10};
	CHECK(fcntl(locked, command, &lock) == 0);
}

// The lock that the process has, as the kernel says it.
static const char *held(void)
{
	static char text[64];
	char path[64], line[256], how[16], start[16], end[16];
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", locked);
	FILE *file = fopen(path, "r");
	CHECK(file);
	strcpy(text, "none");
	while (fgets(line, sizeof line, file))
		if (sscanf(line, "lock: %*s POSIX %*s %15s %*s %*s %15s %15s", how, start, end) == 3)
			snprintf(text, sizeof text, "%s %s-%s", how, start, end);
	fclose(file);
	return text;
}

// Waits for the lock, and says so when it gets it.
static pid_t make_waiter(int says)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		// The open file is the same one, and locks of processes are by process.
		lock(F_SETLKW, F_WRLCK);
		write_all(says, "x", 1);
		_exit(0);
	}
	return child;
}

static void *map_file(int fd, int kind)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, kind, fd, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

static void mapped(const char *said)
{
	void *shared = map_file(locked, MAP_SHARED), *own = map_file(locked, MAP_PRIVATE);
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(munmap(shared, PAGE) == 0 && munmap(own, PAGE) == 0);
		CHECK(rv_check(id, NULL, 0) >= 0);
		if (said) {
			say("looked at: %s", held());
			again(id);
			say("done again: %s", held());
			fflush(stdout);
		}
		back(id);
	}
	CHECK(is_mapped(shared) && is_mapped(own));
	say("%s: %s", said ? said : "without a name", held());
	CHECK(munmap(shared, PAGE) == 0 && munmap(own, PAGE) == 0);
	forget(id);
}

// What was closed since is open again, under a number above others that are free.
static void closed(void)
{
	int low = open("/dev/null", O_RDONLY | O_CLOEXEC), other = open(name, O_RDWR | O_CLOEXEC);
	CHECK(low >= 0 && other > low && close(low) == 0);
	int id = checkpoint();
	if (first_time(id)) {
		// That lets go of the lock.
		CHECK(close(other) == 0);
		lock(F_SETLK, F_WRLCK);
		back(id);
	}
	CHECK(is_open(other) && !is_open(low));
	say("open again: %s", held());
	forget(id);
}

int main(void)
{
	need_session();
	int says[2];
	CHECK(pipe(says) == 0);
	locked = mkstemp(name);
	CHECK(locked >= 0 && ftruncate(locked, PAGE) == 0);
	lock(F_SETLK, F_WRLCK);
	// Nobody waits yet: closing it is the program's own doing.
	closed();
	pid_t waiter = make_waiter(says[1]);
	mapped("gone back");
	CHECK(unlink(name) == 0);
	mapped(NULL);
	CHECK(kill(waiter, 0) == 0);
	struct pollfd ready = {.fd = says[0], .events = POLLIN};
	say("%s", poll(&ready, 1, 0) == 0 ? "nobody else had it" : "somebody else had it");
	CHECK(kill(waiter, SIGKILL) == 0 && waitpid(waiter, NULL, 0) == waiter);
	return 0;
}
