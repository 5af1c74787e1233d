// A program that unmaps what it should not (the vDSO, most of the address space that it
// does not use) and maps where nothing should be, goes back all the same.
// prints: went back
// prints: replayed
#include "live.h"

int main(void)
{
	need_session();
	char line[512], name[256];
	unsigned long begin, end;
	char *kept = map(PAGE);
	kept[0] = 'k';
	int id = checkpoint();
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps);
	while (fgets(line, sizeof line, maps)) {
		name[0] = 0;
		CHECK(sscanf(line, "%lx-%lx %*s %*s %*s %*s %255s", &begin, &end, name) >= 2);
		if (strncmp(name, "[vdso]", 6) == 0 || strncmp(name, "[vvar", 5) == 0)
			munmap((void *)begin, end - begin);
	}
	fclose(maps);
	CHECK(munmap((void *)(1l << 20), (3l << 20)) == 0);
	CHECK(munmap(kept, PAGE) == 0);
	CHECK_ERR(munmap((void *)-PAGE, PAGE), EINVAL);
	void *low = mmap((void *)0x10000, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(low == (void *)0x10000 || low == MAP_FAILED);
	if (first_time(id))
		back(id);
	say("went back");
	again(id);
	say("replayed");
	return 0;
}
