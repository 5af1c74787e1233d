// Extended attributes, by path, by link and by descriptor.
// covers: setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
// covers: removexattr lremovexattr fremovexattr
#include "guest.h"
#include <sys/xattr.h>

int main(void)
{
	char value[64], list[256];
	write_file("f", "x");
	int fd = open("f", O_RDWR);
	CHECK(symlink("f", "l") == 0);
	if (outcome("setxattr", setxattr("f", "user.one", "first", 5, XATTR_CREATE)) == -1)
		return 0; // A file system without user attributes.
	CHECK_ERR(setxattr("f", "user.one", "again", 5, XATTR_CREATE), EEXIST);
	CHECK(fsetxattr(fd, "user.two", "second!", 7, 0) == 0);
	outcome("lsetxattr on a link", lsetxattr("l", "user.three", "3", 1, 0));
	CHECK(lsetxattr("f", "user.three", "", 0, 0) == 0);
	memset(value, '#', sizeof value);
	CHECK(getxattr("f", "user.one", value, sizeof value) == 5 && value[5] == '#');
	say("one: %.5s", value);
	CHECK(fgetxattr(fd, "user.two", value, sizeof value) == 7);
	say("two: %.7s", value);
	CHECK(lgetxattr("f", "user.three", value, sizeof value) == 0);
	CHECK(getxattr("f", "user.one", NULL, 0) == 5);
	CHECK_ERR(getxattr("f", "user.two", value, 2), ERANGE);
	CHECK_ERR(getxattr("f", "user.absent", value, 2), ENODATA);
	say("list by path: %zd", listxattr("f", list, sizeof list));
	say("list by fd: %zd", flistxattr(fd, list, sizeof list));
	say("list of link: %zd", llistxattr("l", list, sizeof list) >= 0 ? (ssize_t)0 : (ssize_t)-1);
	CHECK(removexattr("f", "user.one") == 0);
	CHECK(fremovexattr(fd, "user.two") == 0);
	CHECK(lremovexattr("f", "user.three") == 0);
	CHECK_ERR(removexattr("f", "user.one"), ENODATA);
	outcome("trusted attribute", setxattr("f", "trusted.t", "t", 1, 0));
	return 0;
}
