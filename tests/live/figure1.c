// Figure 1 of the Flashback paper: a checkpoint before work that may fail. If it
// fails, the program goes back and does it again with its instrumentation on; if it
// succeeds, the checkpoint is discarded.
// prints: plain: failed
// prints: instrumented: record 12
// prints: instrumented: record 7
// prints: instrumented: record x
// prints: instrumented: failed
// prints: replayed with 3 records counted
// prints: instrumented: record 12
// prints: instrumented: record 7
// prints: instrumented: record 8
// prints: instrumented: sum 27
// prints: discarded
#include "live.h"

static int instrumented, counted;

// The sum of the records, or -1.
static int work(const char *path)
{
	char line[16];
	FILE *file = fopen(path, "r");
	CHECK(file);
	int sum = 0;
	while (fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = 0;
		if (rv_replaying() > 0)
			counted++;
		if (instrumented)
			say("instrumented: record %s", line);
		int value = atoi(line);
		if (value <= 0) {
			fclose(file);
			return -1;
		}
		sum += value;
	}
	fclose(file);
	return sum;
}

int main(void)
{
	need_session();
	write_file("records", "12\n7\nx\n");
	int id = checkpoint();
	instrumented = rv_rollbacks(id) > 0;
	int sum = work("records");
	if (sum < 0) {
		say("%s: failed", instrumented ? "instrumented" : "plain");
		if (!instrumented)
			back(id);
		again(id);
		say("replayed with %d records counted", counted);
		// What is in files stays: this is the repair.
		write_file("records", "12\n7\n8\n");
		back(id);
	}
	say("%s: sum %d", instrumented ? "instrumented" : "plain", sum);
	CHECK(counted == 0);
	forget(id);
	say("discarded");
	return 0;
}
