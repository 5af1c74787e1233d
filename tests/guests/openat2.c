// openat2 with resolution rules.
// covers: openat2
#include "guest.h"
#include <linux/openat2.h>

static long open_with(const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags, .resolve = resolve};
	return syscall(437, AT_FDCWD, path, &how, sizeof how);
}

int main(void)
{
	CHECK(mkdir("d", 0700) == 0);
	write_file("d/f", "x");
	CHECK(symlink("d", "s") == 0 && symlink("/etc", "d/absolute") == 0);
	outcome("plain", open_with("d/f", O_RDONLY, 0));
	outcome("no symlinks", open_with("s/f", O_RDONLY, RESOLVE_NO_SYMLINKS));
	outcome("beneath", open_with("d/../d/f", O_RDONLY, RESOLVE_BENEATH));
	outcome("above", open_with("../x", O_RDONLY, RESOLVE_BENEATH));
	outcome("absolute link beneath", open_with("d/absolute/passwd", O_RDONLY, RESOLVE_BENEATH));
	outcome("in root", open_with("/d/f", O_RDONLY, RESOLVE_IN_ROOT));
	outcome("cached", open_with("d/f", O_RDONLY, RESOLVE_CACHED));
	outcome("unknown flag", open_with("d/f", 1ull << 40, 0));
	outcome("short structure", syscall(437, AT_FDCWD, "d/f", "", 3));
	return 0;
}
