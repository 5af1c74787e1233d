// Somebody kills what keeps a checkpoint: going back to it is refused, the program goes on as
// if it had not asked, and later checkpoints are as good as any.
// prints: 0: refused, and went on
// prints: 1: refused, and went on
// prints: 2: refused, and went on
// prints: went back
// prints: did it again
#include "shadows.h"

// The program has made no processes: all that it is the parent of keep checkpoints.
static int kill_all_children(void)
{
	DIR *all = opendir("/proc");
	CHECK(all);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(all));)
		if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == getpid())
			count += kill(atoi(entry->d_name), SIGKILL) == 0;
	closedir(all);
	return count;
}

int main(void)
{
	need_session();
	volatile int memory = 0;
	for (int i = 0; i < 3; i++) {
		int kept = checkpoint();
		memory = 10 + i;
		int id = checkpoint();
		CHECK(first_time(id) && first_time(kept));
		CHECK(kill_all_children() >= 1);
		CHECK(rv_rollback(id) == -1 && errno == ESRCH);
		CHECK(rv_replay(id) == -1 && errno == ESRCH);
		CHECK(rv_rollback(kept) == -1 && errno == ESRCH);
		CHECK(memory == 10 + i && rv_replaying() == 0);
		forget(id);
		forget(kept);
		// None of them is the program's to wait for.
		CHECK_ERR(waitpid(-1, NULL, 0), ECHILD);
		say("%d: refused, and went on", i);
	}
	memory = 1;
	int id = checkpoint();
	memory++;
	if (first_time(id))
		back(id);
	CHECK(memory == 2);
	say("went back");
	again(id);
	say("did it again");
	return 0;
}
