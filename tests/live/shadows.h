// Whether a checkpoint is a copy of the process, seen from outside: by what stands at a
// marker's place in the processes that this one has made.
#ifndef SHADOWS_H
#define SHADOWS_H
#include "live.h"
#include <ctype.h>

// True if the system can tell what was written: Linux 6.7, and no filter in the way.
GUEST_FN int can_save(void)
{
	char text[4096] = "";
	int major = 0, minor = 0;
	FILE *file = fopen("/proc/sys/kernel/osrelease", "r");
	CHECK(file && fscanf(file, "%d.%d", &major, &minor) == 2);
	fclose(file);
	file = fopen("/proc/self/status", "r");
	CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
	fclose(file);
	return (major > 6 || (major == 6 && minor >= 7)) && strstr(text, "Seccomp:\t0");
}

GUEST_FN int parent_of(const char *pid)
{
	char path[300], line[256];
	int parent = 0;
	snprintf(path, sizeof path, "/proc/%s/status", pid);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "PPid: %d", &parent) == 1)
			break;
	if (file)
		fclose(file);
	return parent;
}

// What stands at the marker's place in each process of which this one is the parent.
GUEST_FN void count_markers(volatile int *marker, int counts[4])
{
	DIR *all = opendir("/proc");
	CHECK(all);
	for (struct dirent *entry; (entry = readdir(all));) {
		if (!isdigit((unsigned char)entry->d_name[0]) || parent_of(entry->d_name) != getpid())
			continue;
		char path[300];
		snprintf(path, sizeof path, "/proc/%s/mem", entry->d_name);
		int memory = open(path, O_RDONLY), there = 0;
		// One that has ended has no memory.
		if (memory >= 0 && pread(memory, &there, sizeof there, (off_t)(uintptr_t)marker) == sizeof there) {
			CHECK(there >= 0 && there < 4);
			counts[there]++;
		}
		if (memory >= 0)
			close(memory);
	}
	closedir(all);
}

#endif
