// A later checkpoint of a large process is no copy of it: what keeps it shares the process's memory,
// as far as the system can tell what was written (Linux 6.7, and no filter in the way).
// prints: one copy, and what was written since
#include "live.h"
#include <ctype.h>

static volatile int marker;

static int can_save(void)
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

static int parent_of(const char *pid)
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
static void count_markers(int counts[4])
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
		if (memory >= 0 && pread(memory, &there, sizeof there, (off_t)(uintptr_t)&marker) == sizeof there) {
			CHECK(there >= 0 && there < 4);
			counts[there]++;
		}
		if (memory >= 0)
			close(memory);
	}
	closedir(all);
}

int main(void)
{
	need_session();
	// A small process is forked each time.
	size_t size = 16 << 20;
	memset(map(size), 1, size);
	int counts[4] = {0};
	marker = 1;
	int first = checkpoint();
	CHECK(first_time(first));
	marker = 2;
	int second = checkpoint();
	if (first_time(second)) {
		marker = 3;
		count_markers(counts);
		if (can_save())
			CHECK(counts[2] == 0 && counts[3] >= 1);
		else
			CHECK(counts[2] + counts[3] >= 1);
		back(second);
	}
	CHECK(marker == 2);
	forget(second);
	forget(first);
	say("one copy, and what was written since");
	return 0;
}
