// What the program does in the first moment after a checkpoint with what its kernel's objects
// hold is not taken for a part of the checkpoint.
// prints: flags
// prints: flags of closed files
// prints: epoll sets
// prints: offsets
// prints: offsets of unused files
#include "live.h"
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define ROUNDS 20
#define FILES 200

static int has(int fd, int flag)
{
	int flags = fcntl(fd, F_GETFL);
	CHECK(flags >= 0);
	return (flags & flag) != 0;
}

static void set(int fd, int flags)
{
	CHECK(fcntl(fd, F_SETFL, flags) == 0);
}

static void flags_return(int file, int end)
{
	for (int round = 0; round < ROUNDS; round++) {
		int id = checkpoint();
		if (first_time(id)) {
			set(file, O_APPEND | O_NONBLOCK);
			int on = 1;
			CHECK(ioctl(end, FIONBIO, &on) == 0);
			back(id);
		}
		CHECK(!has(file, O_APPEND) && !has(file, O_NONBLOCK) && !has(end, O_NONBLOCK));
		forget(id);
	}
	say("flags");
}

static void flags_of_closed(int file)
{
	for (int round = 0; round < ROUNDS; round++) {
		int id = checkpoint();
		if (first_time(id)) {
			set(file, O_APPEND);
			close(file);
			back(id);
		}
		CHECK(!has(file, O_APPEND));
		forget(id);
	}
	say("flags of closed files");
}

static int count_ready(int set)
{
	struct epoll_event events[8];
	int count = epoll_wait(set, events, 8, 0);
	CHECK(count >= 0);
	return count;
}

static void epoll_returns(int end)
{
	int set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLOUT};
	for (int round = 0; round < ROUNDS; round++) {
		int id = checkpoint();
		if (first_time(id)) {
			CHECK(epoll_ctl(set, EPOLL_CTL_ADD, end, &event) == 0);
			back(id);
		}
		CHECK(count_ready(set) == 0);
		forget(id);
	}
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, end, &event) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		int id = checkpoint();
		if (first_time(id)) {
			CHECK(epoll_ctl(set, EPOLL_CTL_DEL, end, NULL) == 0);
			back(id);
		}
		CHECK(count_ready(set) == 1);
		forget(id);
	}
	close(set);
	say("epoll sets");
}

// Moves the offset of a file in one of the ways there are.
static void move_offset(int way, int file, int other)
{
	char bytes[2];
	struct iovec vector = {bytes, 2};
	off_t end = 4;

	switch (way) {
	case 0:
		CHECK(lseek(file, 9, SEEK_SET) == 9);
		break;
	case 1:
		CHECK(read(file, bytes, 2) == 2);
		break;
	case 2:
		CHECK(readv(file, &vector, 1) == 2);
		break;
	case 3:
		CHECK(preadv2(file, &vector, 1, -1, 0) == 2);
		break;
	case 4:
		CHECK(sendfile(other, file, NULL, 2) == 2);
		break;
	case 5:
		CHECK(copy_file_range(file, NULL, other, &end, 2, 0) == 2);
		break;
	case 6:
		CHECK(sendfile(file, other, &end, 2) == 2);
		break;
	default:
		CHECK(write(file, "xy", 2) == 2);
	}
}

static void offsets_return(void)
{
	int files[FILES], other = memfd_create("other", 0);

	CHECK(write(other, "0123456789", 10) == 10);
	for (int i = 0; i < FILES; i++) {
		files[i] = memfd_create("file", 0);
		CHECK(files[i] >= 0 && write(files[i], "0123456789", 10) == 10);
		CHECK(lseek(files[i], 1, SEEK_SET) == 1);
	}
	for (int round = 0; round < ROUNDS; round++) {
		int id = checkpoint();
		if (first_time(id)) {
			for (int i = 0; i < 4; i++)
				move_offset(round % 8, files[(round * 37 + i * 53) % FILES], other);
			back(id);
		}
		for (int i = 0; i < FILES; i++)
			CHECK(lseek(files[i], 0, SEEK_CUR) == 1);
		forget(id);
	}
	say("offsets");
}

// Those that nothing was done with since they were opened.
static void offsets_of_unused(void)
{
	char name[] = "/tmp/rv-first-moment-XXXXXX";
	char other_name[] = "/tmp/rv-first-moment-XXXXXX";
	int file = mkstemp(name), other = mkstemp(other_name), dirs[ROUNDS], files[ROUNDS];

	CHECK(unlink(other_name) == 0);
	CHECK(write(file, "0123456789", 10) == 10 && write(other, "0123456789", 10) == 10);
	for (int i = 0; i < ROUNDS; i++)
		CHECK((files[i] = open(name, O_RDWR)) >= 0 && (dirs[i] = open("/proc/self", O_RDONLY)) >= 0);
	for (int round = 0; round < ROUNDS; round++) {
		char entries[512];
		int id = checkpoint();
		if (first_time(id)) {
			move_offset(round % 8, files[round], other);
			CHECK(syscall(SYS_getdents64, dirs[round], entries, sizeof entries) > 0);
			back(id);
		}
		CHECK(lseek(files[round], 0, SEEK_CUR) == 0 && lseek(dirs[round], 0, SEEK_CUR) == 0);
		forget(id);
	}
	CHECK(unlink(name) == 0);
	say("offsets of unused files");
}

int main(void)
{
	need_session();
	int file = memfd_create("file", 0), ends[2];
	CHECK(file >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	flags_return(file, ends[0]);
	flags_of_closed(file);
	epoll_returns(ends[1]);
	offsets_return();
	offsets_of_unused();
	return 0;
}
