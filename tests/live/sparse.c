// A terabyte that is reserved, and of which little is there, as a sanitizer's shadow: checkpoints go
// by what is there, and build no page tables for the rest.
// prints: 8 checkpoints, all as it was, and few page tables
#include "live.h"

#define TOTAL (1ul << 40)
#define STRIDE (TOTAL / 16)
#define CHECKPOINTS 8
#define TABLES_KB_MAX 65536

static long tables_kb(void)
{
	char line[256];
	long found = -1;
	FILE *status = fopen("/proc/self/status", "r");
	CHECK(status != NULL);
	while (fgets(line, sizeof line, status))
		sscanf(line, "VmPTE: %ld", &found);
	fclose(status);
	return found;
}

int main(void)
{
	need_session();
	char *all = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(all != MAP_FAILED);
	for (int round = 0; round < CHECKPOINTS; round++) {
		for (size_t at = 0; at < TOTAL; at += STRIDE)
			all[at + 4096 * round] = round + 1;
		int id = checkpoint();
		for (size_t at = 0; at < TOTAL; at += STRIDE) {
			CHECK(all[at + 4096 * round] == round + 1);
			// Where nothing was near it, too.
			CHECK(all[at + STRIDE / 2] == 0);
		}
		if (first_time(id)) {
			for (size_t at = 0; at < TOTAL; at += STRIDE) {
				all[at + 4096 * round] = 99;
				all[at + STRIDE / 2] = 77;
			}
			back(id);
		}
		if (round % 2)
			forget(id);
	}
	long tables = tables_kb();
	CHECK(tables > 0 && tables < TABLES_KB_MAX);
	say("%d checkpoints, all as it was, and few page tables", CHECKPOINTS);
	return 0;
}
