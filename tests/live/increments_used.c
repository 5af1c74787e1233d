// A later checkpoint of a large process is no copy of it: what keeps it shares the process's memory,
// as far as the system can tell what was written (Linux 6.7, and no filter in the way). It is made
// when a descriptor is closed that was open at the checkpoint.
// prints: one copy, and what was written since
#include "live.h"
#include "shadows.h"

static volatile int marker;

int main(void)
{
	need_session();
	// A small process is forked the first times.
	size_t size = 16 << 20;
	memset(map(size), 1, size);
	int counts[4] = {0};
	marker = 1;
	int first = checkpoint();
	CHECK(first_time(first));
	marker = 2;
	int file = open("/proc/self/exe", O_RDONLY);
	CHECK(file >= 0);
	int second = checkpoint();
	if (first_time(second)) {
		marker = 3;
		count_markers(&marker, counts);
		if (can_save())
			CHECK(counts[2] == 0);
		else
			CHECK(counts[2] + counts[3] >= 1);
		close(file);
		counts[2] = counts[3] = 0;
		count_markers(&marker, counts);
		if (can_save())
			CHECK(counts[2] == 0 && counts[3] >= 1);
		back(second);
	}
	CHECK(marker == 2 && fcntl(file, F_GETFD) == 0);
	forget(second);
	forget(first);
	say("one copy, and what was written since");
	return 0;
}
