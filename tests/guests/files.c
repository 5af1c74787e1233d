// Regular files: open, read, write, seek, positions, sync, allocate, truncate.
// covers: open openat creat read write pread64 pwrite64 lseek close fsync fdatasync sync syncfs
// covers: truncate ftruncate fallocate fadvise64 readahead sync_file_range dup dup2 dup3 umask
#include "guest.h"

int main(void)
{
	char buffer[64];

	umask(022);
	int fd = syscall(SYS_creat, "plain", 0666);
	CHECK(fd >= 0);
	CHECK(write(fd, "hello, world\n", 13) == 13);
	CHECK_ERR(read(fd, buffer, 1), EBADF);
	CHECK(close(fd) == 0);
	CHECK_ERR(close(fd), EBADF);

	fd = syscall(SYS_open, "plain", O_RDWR | O_APPEND);
	CHECK(fd >= 0);
	memset(buffer, 'x', sizeof buffer);
	CHECK(read(fd, buffer, sizeof buffer) == 13 && buffer[13] == 'x');
	CHECK(read(fd, buffer, sizeof buffer) == 0);
	CHECK(read(fd, buffer, 0) == 0);
	say("read: %.13s", buffer);
	CHECK(write(fd, "more\n", 5) == 5);
	CHECK(lseek(fd, 0, SEEK_CUR) == 18);
	CHECK(lseek(fd, -5, SEEK_END) == 13);
	CHECK(read(fd, buffer, 5) == 5 && memcmp(buffer, "more\n", 5) == 0);
	CHECK(lseek(fd, 7, SEEK_SET) == 7);
	CHECK_ERR(lseek(fd, -1, SEEK_SET), EINVAL);
	CHECK(pread(fd, buffer, 4, 2) == 4 && memcmp(buffer, "llo,", 4) == 0);
	CHECK_ERR(pread(fd, buffer, 4, -1), EINVAL);
	CHECK(lseek(fd, 0, SEEK_CUR) == 7);
	close(fd);

	fd = openat(AT_FDCWD, "plain", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(pwrite(fd, "HELLO", 5, 0) == 5);
	CHECK(pwrite(fd, "!", 1, 4096) == 1);
	CHECK(lseek(fd, 0, SEEK_END) == 4097);
	CHECK(fsync(fd) == 0);
	CHECK(fdatasync(fd) == 0);
	CHECK(syncfs(fd) == 0);
	sync();
	outcome("sync_file_range", sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE));
	outcome("fadvise64", syscall(SYS_fadvise64, fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	outcome("readahead", readahead(fd, 0, 4096));
	outcome("fallocate", fallocate(fd, FALLOC_FL_KEEP_SIZE, 8192, 4096));
	outcome("punch hole", fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 4096));
	CHECK(pread(fd, buffer, 5, 0) == 5);
	say("first byte after punching: %d", buffer[0]);
	CHECK(ftruncate(fd, 3) == 0 && lseek(fd, 0, SEEK_END) == 3);
	CHECK(truncate("plain", 100) == 0 && lseek(fd, 0, SEEK_END) == 100);
	CHECK_ERR(truncate("absent", 1), ENOENT);

	int copy = dup(fd);
	CHECK(copy > fd);
	CHECK(lseek(copy, 42, SEEK_SET) == 42 && lseek(fd, 0, SEEK_CUR) == 42);
	CHECK(dup2(fd, 50) == 50 && lseek(50, 0, SEEK_CUR) == 42);
	CHECK(dup2(fd, fd) == fd);
	CHECK(dup3(fd, 51, O_CLOEXEC) == 51 && fcntl(51, F_GETFD) == FD_CLOEXEC);
	CHECK_ERR(dup3(fd, fd, 0), EINVAL);
	CHECK_ERR(dup2(fd, -1), EBADF);
	CHECK_ERR(dup(999), EBADF);

	CHECK_ERR(open("absent", O_RDONLY), ENOENT);
	CHECK_ERR(open("plain", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
	CHECK_ERR(open("plain/below", O_RDONLY), ENOTDIR);
	CHECK_ERR(open(".", O_WRONLY), EISDIR);
	CHECK_ERR(read(fd, BAD, 1), EFAULT);
	CHECK_ERR(syscall(SYS_open, BAD, O_RDONLY), EFAULT);
	CHECK_ERR(write(fd, BAD, 1), EFAULT);

	int unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
	outcome("O_TMPFILE", unnamed);
	int path_only = open("plain", O_PATH);
	CHECK(path_only >= 0);
	CHECK_ERR(read(path_only, buffer, 1), EBADF);
	mode_t old = umask(077);
	say("umask %o", old);
	return 0;
}
