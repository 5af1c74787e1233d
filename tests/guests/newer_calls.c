// Calls that came after Linux 6.12, extended attributes and flags of files by a directory; where the kernel
// has none of them it says so.
// covers: setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr
#include "guest.h"

struct xattr_args {
	uint64_t value;
	uint32_t size, flags;
};

static void attributes(int dir)
{
	struct xattr_args args = { (uintptr_t)"green", 5, 0 };
	long result = syscall(463, dir, "file", 0, "user.colour", &args, sizeof args);
	nondet("setxattrat %ld %d", result, result ? errno : 0);
	char value[32] = "untouched";
	args = (struct xattr_args){ (uintptr_t)value, sizeof value, 0 };
	result = syscall(464, dir, "file", 0, "user.colour", &args, sizeof args);
	nondet("getxattrat %ld %d %s", result, result < 0 ? errno : 0, value);
	args.size = 2;
	result = syscall(464, dir, "file", 0, "user.colour", &args, sizeof args);
	nondet("too little room: %ld %d %s", result, result < 0 ? errno : 0, value);
	args = (struct xattr_args){ 0 };
	result = syscall(464, dir, "file", 0, "user.colour", &args, sizeof args);
	nondet("its length: %ld %d", result, result < 0 ? errno : 0);
	char list[256] = "";
	result = syscall(465, dir, "file", 0, list, sizeof list);
	nondet("listxattrat %ld %d %s", result, result < 0 ? errno : 0, list);
	result = syscall(466, dir, "file", 0, "user.colour");
	nondet("removexattrat %ld %d", result, result ? errno : 0);
}

static void flags(int dir)
{
	struct {
		uint64_t flags;
		uint32_t extent, extents, project, cow;
	} attr = { 1, 2, 3, 4, 5 };
	long result = syscall(468, dir, "file", &attr, sizeof attr, 0);
	nondet("file_getattr %ld %d: %llx %u %u %u %u", result, result ? errno : 0,
	       (unsigned long long)attr.flags, attr.extent, attr.extents, attr.project, attr.cow);
	result = syscall(469, dir, "file", &attr, sizeof attr, 0);
	nondet("file_setattr %ld %d", result, result ? errno : 0);
	uint64_t mount[4] = { 0 };
	result = syscall(467, dir, "file", 0x80000 | 1, mount, sizeof mount);
	nondet("open_tree_attr %d %d", result >= 0, result < 0 ? errno : 0);
}

int main(void)
{
	char name[] = "/tmp/newer-XXXXXX";
	CHECK(mkdtemp(name) != NULL);
	int dir = open(name, O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0);
	int fd = openat(dir, "file", O_CREAT | O_RDWR, 0600);
	CHECK(fd >= 0);
	attributes(dir);
	flags(dir);
	CHECK(unlinkat(dir, "file", 0) == 0 && rmdir(name) == 0);
	for (long number = 471; number < 500; number++) {
		long result = syscall(number, 0, 0, 0, 0, 0, 0);
		nondet("%ld: %ld %d", number, result, result < 0 ? errno : 0);
	}
	say("done");
	return 0;
}
