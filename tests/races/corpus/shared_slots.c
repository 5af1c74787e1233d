// Processes look for a free slot in memory that they share, and then take it.
#include "corpus.h"

enum { WORKERS = 3, SLOTS_EACH = 10 };

struct table {
	volatile int next, taken[WORKERS * SLOTS_EACH + 1];
};

static void take_slots(struct table *table)
{
	for (int i = 0; i < SLOTS_EACH; i++) {
		int slot = table->next;
		table->taken[slot]++;
		table->next = slot + 1;
		getppid();
	}
}

int main(void)
{
	struct table *table =
		mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t workers[WORKERS];
	must(table != MAP_FAILED, "mmap");
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		must(workers[i] >= 0, "fork");
		if (workers[i] == 0) {
			take_slots(table);
			_exit(0);
		}
	}
	for (int i = 0; i < WORKERS; i++)
		must(waitpid(workers[i], NULL, 0) == workers[i], "waitpid");
	for (int i = 0; i < WORKERS * SLOTS_EACH; i++)
		if (table->taken[i] > 1)
			caught("a slot was taken twice");
	return 0;
}
