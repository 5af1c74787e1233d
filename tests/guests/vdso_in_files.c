// What the stack says of the vDSO is what /proc/self/auxv and /proc/self/maps say, whoever reads
// them: a program that brings a C library of its own finds it there, and calls it.
// not-by: write-protection sums
// covers: openat read
#include "guest.h"
#include <elf.h>
#include <sys/auxv.h>

static unsigned long in_vector(void)
{
	Elf64_auxv_t entry;
	unsigned long found = 0;
	int fd = open("/proc/self/auxv", O_RDONLY);
	CHECK(fd >= 0);
	do {
		CHECK(read(fd, &entry, sizeof entry) == sizeof entry);
		if (entry.a_type == AT_SYSINFO_EHDR)
			found = entry.a_un.a_val;
		else if (entry.a_type == AT_ENTRY || entry.a_type == AT_PHDR || entry.a_type == AT_PAGESZ)
			CHECK(entry.a_un.a_val == getauxval(entry.a_type));
	} while (entry.a_type != AT_NULL);
	close(fd);
	return found;
}

static unsigned long in_maps(void)
{
	char line[512];
	unsigned long start, found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps);
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "[vdso]") && sscanf(line, "%lx", &start) == 1)
			found = start;
	fclose(maps);
	return found;
}

static void compare(const char *who)
{
	unsigned long told = getauxval(AT_SYSINFO_EHDR);
	say("%s: vector %s, maps %s", who, in_vector() == told ? "agrees" : "differs",
	    in_maps() == told ? "agree" : "differ");
}

int main(void)
{
	char *before = sbrk(0);
	compare("parent");
	pid_t child = fork();
	if (child == 0) {
		compare("child");
		_exit(0);
	}
	reap("child", child);
	// What else the kernel knows of the image is as it was.
	CHECK(sbrk(8192) >= (void *)before && sbrk(-8192) != (void *)-1);
	FILE *name = fopen("/proc/self/cmdline", "r");
	char text[4096] = "";
	CHECK(name && fread(text, 1, sizeof text - 1, name) > 0);
	say("%s", strstr(text, "vdso_in_files") ? "its name" : text);
	return 0;
}
