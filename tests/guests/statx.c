// statx with masks and flags.
// covers: statx
#include "guest.h"

int main(void)
{
	struct statx x;
	write_file("f", "seven77");
	CHECK(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS | STATX_BTIME, &x) == 0);
	say("mode %o size %llu links %u", x.stx_mode, (unsigned long long)x.stx_size, x.stx_nlink);
	nondet("inode %llu born %lld mask %x", (unsigned long long)x.stx_ino,
	       (long long)x.stx_btime.tv_sec, x.stx_mask);
	int fd = open("f", O_RDONLY);
	CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &x) == 0);
	say("size %llu", (unsigned long long)x.stx_size);
	CHECK(symlink("f", "l") == 0);
	CHECK(statx(AT_FDCWD, "l", AT_SYMLINK_NOFOLLOW, STATX_TYPE, &x) == 0 && S_ISLNK(x.stx_mode));
	CHECK_ERR(statx(AT_FDCWD, "absent", 0, STATX_ALL, &x), ENOENT);
	CHECK_ERR(statx(AT_FDCWD, "f", 0x77777, STATX_ALL, &x), EINVAL);
	CHECK(statx(AT_FDCWD, "f", AT_STATX_DONT_SYNC, 0x1fff, &x) == 0);
	nondet("mount %llu", (unsigned long long)x.stx_mnt_id);
	return 0;
}
