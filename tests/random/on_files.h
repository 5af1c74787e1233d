// Operations on files, directories and descriptors.
#include "random.h"
#include <dirent.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>

OPERATION void file_write_read(struct self *me)
{
	char bytes[3000];
	int fd = below(me, 2) ? open_shared_file(me, O_RDWR)
			      : open_own_file(O_RDWR, below(me, 2) ? MAP_PRIVATE : MAP_SHARED);
	size_t length = (size_t)below(me, sizeof bytes);
	fill(me, bytes, length);
	fold_result(me, pwrite(fd, bytes, length, below(me, 20000)));
	ssize_t got = fold_result(me, pread(fd, bytes, sizeof bytes, below(me, 20000)));
	if (got > 0)
		fold(me, bytes, (size_t)got);
	close(fd);
}

OPERATION void file_append(struct self *me)
{
	char bytes[64];
	int fd = open_shared_file(me, O_RDWR | O_APPEND);
	fill(me, bytes, sizeof bytes);
	fold_result(me, write(fd, bytes, (size_t)below(me, 64)));
	fold_result(me, lseek(fd, below(me, 100), (int)below(me, 5)));
	fold_result(me, read(fd, bytes, sizeof bytes));
	struct stat status;
	fstat(fd, &status);
	fold_value(me, status.st_size);
	fold_value(me, status.st_mtim.tv_nsec);
	close(fd);
}

OPERATION void file_size(struct self *me)
{
	int fd = open_shared_file(me, O_RDWR | (below(me, 8) ? 0 : O_TRUNC));
	if (below(me, 2))
		fold_result(me, ftruncate(fd, below(me, 40000)));
	else
		fold_result(me, fallocate(fd, below(me, 2) ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0,
					  below(me, 20000), 1 + below(me, 9000)));
	fold_result(me, lseek(fd, 0, SEEK_HOLE));
	fold_result(me, lseek(fd, 0, SEEK_END));
	close(fd);
}

// Maps a file that ends before its mapping, and grows.
OPERATION void file_mapped(struct self *me)
{
	size_t pages = 1 + (size_t)below(me, 5);
	int kind = below(me, 3) ? MAP_PRIVATE : MAP_SHARED;
	int fd = open_own_file(O_RDWR, kind);
	volatile char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, kind, fd, below(me, 2) * PAGE);
	close(fd);
	if (at == MAP_FAILED) {
		fold_value(me, errno);
		return;
	}
	sigjmp_buf escape;
	volatile int touches = 0;
	if (sigsetjmp(escape, 1) == 0) {
		me->escape = &escape;
		for (; touches < 6; touches++) {
			size_t offset = (size_t)below(me, (long)(pages * PAGE));
			if (below(me, 2))
				at[offset] = (char)draw(me);
			fold_value(me, at[offset]);
		}
	}
	me->escape = NULL;
	fold_value(me, touches);
	if (below(me, 2))
		fold_result(me, msync((void *)at, pages * PAGE, MS_ASYNC));
	munmap((void *)at, pages * PAGE);
}

OPERATION void file_names(struct self *me)
{
	char from[16], to[16], target[64];
	snprintf(from, sizeof from, "n%ld", below(me, 6));
	snprintf(to, sizeof to, "n%ld", below(me, 6));
	switch (below(me, 7)) {
	case 0: fold_result(me, close(open(from, O_CREAT | O_WRONLY | O_EXCL, 0600))); break;
	case 1: fold_result(me, rename(from, to)); break;
	case 2: fold_result(me, link(from, to)); break;
	case 3: fold_result(me, symlink(from, to)); break;
	case 4: fold_result(me, unlink(from)); break;
	case 5: fold_result(me, renameat2(AT_FDCWD, from, AT_FDCWD, to, (unsigned)below(me, 3))); break;
	case 6: fold_result(me, below(me, 2) ? mkdir(from, 0700) : rmdir(from)); break;
	}
	ssize_t length = fold_result(me, readlink(to, target, sizeof target));
	if (length > 0)
		fold(me, target, (size_t)length);
}

OPERATION void file_status(struct self *me)
{
	char path[16];
	snprintf(path, sizeof path, "%c%ld", below(me, 2) ? 'f' : 'n', below(me, 5));
	struct stat status;
	memset(&status, 0, sizeof status);
	fold_result(me, stat(path, &status));
	fold(me, &status, sizeof status);
	struct statx extended;
	memset(&extended, 0, sizeof extended);
	fold_result(me, statx(AT_FDCWD, path, 0, STATX_ALL, &extended));
	fold_value(me, (long)extended.stx_ino);
	fold_result(me, faccessat(AT_FDCWD, path, (int)below(me, 8), AT_EACCESS));
	struct timespec times[2] = {{0, UTIME_NOW}, {below(me, 100000), UTIME_OMIT}};
	fold_result(me, utimensat(AT_FDCWD, path, times, 0));
	fold_result(me, chmod(path, 0600 + (mode_t)below(me, 64)));
	struct statvfs system;
	fold_result(me, statvfs(".", &system));
	fold_value(me, (long)system.f_bfree);
}

OPERATION void file_directory(struct self *me)
{
	DIR *directory = opendir(below(me, 3) ? "." : below(me, 2) ? "/proc/self/task" : "/dev");
	if (!directory)
		return;
	for (struct dirent *entry; (entry = readdir(directory));)
		fold(me, entry->d_name, strlen(entry->d_name));
	closedir(directory);
}

OPERATION void file_descriptors(struct self *me)
{
	int fd = open_shared_file(me, O_RDONLY), other = fcntl(fd, F_DUPFD_CLOEXEC, 20 + below(me, 20));
	fold_value(me, other);
	fold_result(me, fcntl(fd, F_SETFL, below(me, 2) ? O_NONBLOCK : O_APPEND));
	fold_result(me, fcntl(other, F_GETFL));
	fold_result(me, fcntl(other, F_GETFD));
	fold_result(me, dup3(fd, other, below(me, 2) ? O_CLOEXEC : 0));
	fold_result(me, lseek(other, 3, SEEK_SET));
	fold_result(me, lseek(fd, 0, SEEK_CUR));
	close(fd);
	fold_result(me, close(other));
}

OPERATION void file_vectors(struct self *me)
{
	char first[100], second[1000], third[10];
	struct iovec pieces[3] = {{first, sizeof first}, {second, (size_t)below(me, 1000)}, {third, sizeof third}};
	fill(me, first, sizeof first);
	fill(me, second, sizeof second);
	fill(me, third, sizeof third);
	int fd = open_shared_file(me, O_RDWR);
	fold_result(me, pwritev(fd, pieces, (int)below(me, 4), below(me, 8000)));
	memset(second, 0, sizeof second);
	fold_result(me, preadv2(fd, pieces, (int)below(me, 4), below(me, 8000), 0));
	fold(me, first, sizeof first);
	fold(me, second, sizeof second);
	fold_result(me, readv(fd, pieces, 3));
	fold(me, third, sizeof third);
	close(fd);
}

OPERATION void file_copied(struct self *me)
{
	int from = open_shared_file(me, O_RDONLY), to = open_shared_file(me, O_RDWR), ends[2];
	char bytes[2000];
	off_t at = below(me, 3000);
	switch (below(me, 3)) {
	case 0: fold_result(me, copy_file_range(from, &at, to, NULL, (size_t)below(me, 9000), 0)); break;
	case 1: fold_result(me, sendfile(to, from, &at, (size_t)below(me, 9000))); break;
	case 2:
		if (pipe2(ends, O_NONBLOCK) == 0) {
			fold_result(me, splice(from, &at, ends[1], NULL, (size_t)below(me, 2000), 0));
			ssize_t got = fold_result(me, read(ends[0], bytes, sizeof bytes));
			if (got > 0)
				fold(me, bytes, (size_t)got);
			close(ends[0]);
			close(ends[1]);
		}
		break;
	}
	fold_value(me, at);
	close(from);
	close(to);
}

OPERATION void file_locks(struct self *me)
{
	int fd = open_shared_file(me, O_RDWR);
	struct flock lock = {.l_type = below(me, 2) ? F_WRLCK : F_RDLCK, .l_start = below(me, 100), .l_len = 50};
	fold_result(me, fcntl(fd, below(me, 2) ? F_OFD_SETLK : F_SETLK, &lock));
	lock.l_pid = 0;
	lock.l_type = F_WRLCK;
	fold_result(me, fcntl(fd, F_OFD_GETLK, &lock));
	fold_value(me, lock.l_type);
	fold_result(me, flock(fd, (below(me, 2) ? LOCK_EX : LOCK_SH) | LOCK_NB));
	close(fd);
}

OPERATION void file_in_memory(struct self *me)
{
	int fd = memfd_create("random", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fold_result(me, ftruncate(fd, 3 * PAGE));
	char *at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fill(me, at, (size_t)below(me, 3 * PAGE));
	char bytes[500];
	fold_result(me, pwrite(fd, "across", 6, below(me, 3 * PAGE)));
	fold_result(me, pread(fd, bytes, sizeof bytes, below(me, 2 * PAGE)));
	fold(me, bytes, sizeof bytes);
	fold(me, at, 3 * PAGE);
	munmap(at, below(me, 2) ? PAGE : 3 * PAGE);
	fold_result(me, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | (below(me, 2) ? F_SEAL_WRITE : 0)));
	fold_result(me, ftruncate(fd, below(me, 5) * PAGE));
	close(fd);
}

OPERATION void file_attributes(struct self *me)
{
	char value[40], list[200];
	int fd = open_shared_file(me, O_RDWR);
	fill(me, value, sizeof value);
	fold_result(me, fsetxattr(fd, "user.random", value, (size_t)below(me, 40), 0));
	fold_result(me, fgetxattr(fd, "user.random", value, sizeof value));
	ssize_t length = fold_result(me, flistxattr(fd, list, sizeof list));
	if (length > 0)
		fold(me, list, (size_t)length);
	close(fd);
}

OPERATION void file_of_proc(struct self *me)
{
	static const char *const paths[] = {"/proc/self/stat", "/proc/self/status", "/proc/self/comm", "/proc/self/maps",
					    "/proc/thread-self/stat", "/proc/uptime", "/proc/meminfo",
					    "/proc/self/fdinfo/1", "/proc/self/limits", "/proc/self/cmdline"};
	char bytes[4000];
	int fd = open(paths[below(me, sizeof paths / sizeof *paths)], O_RDONLY);
	for (ssize_t got; fd >= 0 && (got = read(fd, bytes, 1 + (size_t)below(me, sizeof bytes))) > 0;)
		fold(me, bytes, (size_t)got);
	close(fd);
}

OPERATION void file_without_name(struct self *me)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);
	fold_result(me, fd < 0 ? -1 : 0);
	fold_result(me, write(fd, "without a name", 14));
	char path[40], name[16];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	snprintf(name, sizeof name, "n%ld", below(me, 6));
	fold_result(me, linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW));
	close(fd);
}

OPERATION void file_watched(struct self *me)
{
	char events[2000];
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	fold_result(me, inotify_add_watch(fd, ".", IN_ALL_EVENTS));
	file_append(me);
	ssize_t got = fold_result(me, read(fd, events, sizeof events));
	if (got > 0)
		fold(me, events, (size_t)got);
	close(fd);
}

// Streams take locks of libc's that a fork may find held.
OPERATION void file_stream(struct self *me)
{
	if (me->in_child)
		return;
	FILE *file = fopen("stream", below(me, 2) ? "a+" : "r+");
	if (!file)
		return;
	for (long lines = below(me, 200); lines > 0; lines--)
		fprintf(file, "%ld %s %g\n", below(me, 1000), "of a stream", (double)below(me, 100) / 7);
	rewind(file);
	char line[80];
	for (int i = 0; i < 20 && fgets(line, sizeof line, file); i++)
		fold(me, line, strlen(line));
	if (ftell(file) > 20000)
		fold_result(me, ftruncate(fileno(file), 0));
	fclose(file);
}
