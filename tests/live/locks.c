// Locks of files. A checkpoint keeps none that the program gives up by closing a file. A rollback
// gives back those that were let go since, and lets go of those that were taken since: of open
// files and of processes. What somebody else has locked meanwhile is said.
// prints: closed: free
// prints: closed twice: free
// prints: round 0: flock WRITE, open file [WRITE 0-9], process [READ 100-109, WRITE 200-EOF]
// prints: round 1: flock WRITE, open file [WRITE 0-9], process [READ 100-109, WRITE 200-EOF]
// prints: lost: descriptor N: a lock on its file is somebody else's by now
#include "live.h"
#include <sys/file.h>

static char name[] = "locked-XXXXXX";

static int opened(void)
{
	int fd = open(name, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

// True if another open file can have it.
static int is_free(void)
{
	int fd = opened();
	int result = flock(fd, LOCK_EX | LOCK_NB);
	CHECK(result == 0 || errno == EWOULDBLOCK);
	CHECK(result != 0 || flock(fd, LOCK_UN) == 0);
	CHECK(close(fd) == 0);
	return result == 0;
}

static void set(int fd, int command, int type, off_t start, off_t length)
{
	struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
	CHECK(fcntl(fd, command, &lock) == 0);
}

// Locks of one kind that the kernel lists for a descriptor.
static void list(int fd, const char *kind, char *text)
{
	char path[64], line[256];
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	FILE *file = fopen(path, "r");
	CHECK(file);
	*text = 0;
	while (fgets(line, sizeof line, file)) {
		char is[16], how[16], start[32], end[32];
		if (sscanf(line, "lock: %*s %15s %*s %15s %*s %*s %31s %31s", is, how, start, end) == 4 &&
		    strcmp(is, kind) == 0)
			text += sprintf(text, "%s%s %s-%s", text[-1] == '[' ? "" : ", ", how, start, end);
	}
	fclose(file);
}

static void closed(void)
{
	int fd = opened();
	CHECK(flock(fd, LOCK_EX) == 0);
	int id = checkpoint();
	CHECK(!is_free());
	CHECK(close(fd) == 0);
	say("closed: %s", is_free() ? "free" : "locked");
	// One of two numbers for the same open file is closed: it stays locked.
	fd = opened();
	int other = dup(fd);
	CHECK(flock(other, LOCK_EX) == 0);
	int second = checkpoint();
	CHECK(close(other) == 0 && !is_free());
	CHECK(close_range((unsigned)fd, (unsigned)fd, 0) == 0);
	say("closed twice: %s", is_free() ? "free" : "locked");
	forget(second);
	forget(id);
}

static void restored(void)
{
	int whole = opened(), parts = opened();
	CHECK(flock(whole, LOCK_EX) == 0);
	set(parts, F_OFD_SETLK, F_WRLCK, 0, 10);
	set(parts, F_SETLK, F_RDLCK, 100, 10);
	set(parts, F_SETLK, F_WRLCK, 200, 0);
	int id = checkpoint();
	int round = rv_rollbacks(id);
	char flocked[256] = "[", of_file[256] = "[", of_process[256] = "[";
	list(whole, "FLOCK", flocked + 1);
	list(parts, "OFDLCK", of_file + 1);
	list(parts, "POSIX", of_process + 1);
	say("round %d: flock %.5s, open file %s], process %s]", round, flocked + 1, of_file, of_process);
	if (round == 1) {
		CHECK(close(whole) == 0 && close(parts) == 0);
		forget(id);
		return;
	}
	CHECK(flock(whole, LOCK_UN) == 0);
	set(parts, F_OFD_SETLK, F_UNLCK, 5, 2);
	set(parts, F_OFD_SETLK, F_WRLCK, 20, 10);
	set(parts, F_SETLK, F_UNLCK, 0, 0);
	set(parts, F_SETLK, F_WRLCK, 105, 7);
	set(parts, F_SETLK, F_RDLCK, 50, 1);
	// A file that was opened since has a lock that is in the way.
	int since = opened();
	CHECK(flock(since, LOCK_SH) == 0);
	CHECK(close(whole) == 0);
	back(id);
}

static void taken_by_others(void)
{
	int fd = opened(), go[2], done[2];
	CHECK(pipe(go) == 0 && pipe(done) == 0);
	CHECK(flock(fd, LOCK_EX) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	char byte = 'x';
	if (child == 0) {
		CHECK(close(fd) == 0);
		fd = opened();
		CHECK(read(go[0], &byte, 1) == 1 && flock(fd, LOCK_EX) == 0);
		CHECK(write(done[1], &byte, 1) == 1);
		pause();
		_exit(1);
	}
	int id = checkpoint();
	if (first_time(id)) {
		CHECK(flock(fd, LOCK_UN) == 0);
		write_all(go[1], &byte, 1);
		CHECK(read(done[0], &byte, 1) == 1);
		back(id);
	}
	char text[1024];
	CHECK(rv_lost(id, text, sizeof text) > 0);
	char *line = strstr(text, "a lock on");
	say("lost: descriptor N: %.*s", line ? (int)strcspn(line, "\n") : 0, line);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

int main(void)
{
	need_session();
	int file = mkstemp(name);
	CHECK(file >= 0 && close(file) == 0);
	closed();
	restored();
	taken_by_others();
	CHECK(unlink(name) == 0);
	return 0;
}
