// covers: mmap write pwrite64 truncate ftruncate openat sendfile copy_file_range
// A private mapping shows what others write to its file where the program has not stored itself
// (mmap(2)): processes that share no memory write by calls, among them other programs.
#include "guest.h"
#include <sys/mman.h>
#include <sys/sendfile.h>

#define BYTES 8192
#define PARTS 3000

static char name[] = "changed-XXXXXX";

static void fill(int fd, char byte, off_t place, size_t bytes)
{
	char text[BYTES];
	memset(text, byte, bytes);
	CHECK(pwrite(fd, text, bytes, place) == (ssize_t)bytes);
}

static void by_child(void (*change)(int fd))
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int fd = open(name, O_RDWR | O_CLOEXEC);
		CHECK(fd >= 0);
		change(fd);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void whole(int fd)
{
	fill(fd, 'b', 0, BYTES);
}

static void by_write(int fd)
{
	CHECK(lseek(fd, 4096, SEEK_SET) == 4096);
	CHECK(write(fd, "written", 7) == 7);
}

static void in_many_parts(int fd)
{
	for (int part = 0; part < PARTS; part++)
		fill(fd, 'A' + part % 26, part % BYTES, 1);
}

static void by_program(int fd)
{
	(void)fd;
	execlp("sh", "sh", "-c", "printf 'by another program' > \"$0\"", name, (char *)NULL);
}

static void by_copies(int fd)
{
	int copy = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	CHECK(copy >= 0);
	CHECK(write(copy, "copied by the kernel", 20) == 20);
	off_t source = 0, place = 4096;
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(sendfile(fd, copy, &source, 2) == 2);
	source = 0;
	CHECK(copy_file_range(copy, &source, fd, &place, 10, 0) == 10);
}

static void cut_and_grown(int fd)
{
	CHECK(ftruncate(fd, 100) == 0 && ftruncate(fd, BYTES) == 0);
	fill(fd, 'g', 4096, 10);
}

static void show(const char *what, const volatile char *seen, const volatile char *stored)
{
	say("%s: %d %d %d, %d %d %d", what, seen[0], seen[1], seen[4098], stored[0], stored[1],
	    stored[4098]);
}

int main(void)
{
	int fd = mkstemp(name);
	CHECK(fd >= 0);
	fill(fd, 'a', 0, BYTES);
	char *seen = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	char *stored = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(seen != MAP_FAILED && stored != MAP_FAILED);
	stored[0] = 'X';
	show("at first", seen, stored);
	by_child(whole);
	show("whole", seen, stored);
	by_child(by_write);
	show("by write", seen, stored);
	by_child(in_many_parts);
	show("in many parts", seen, stored);
	by_child(by_copies);
	show("by copies", seen, stored);
	by_child(cut_and_grown);
	show("cut and grown", seen, stored);
	by_child(by_program);
	say("by another program: %.18s, %d", seen, stored[1]);
	CHECK(unlink(name) == 0);
	return 0;
}
