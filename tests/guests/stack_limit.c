// A stack that grows past the limit that replay begins with.
// covers: setrlimit prlimit64
#include "guest.h"
#include <sys/resource.h>

static int deep(int depth)
{
	volatile char frame[4096];
	frame[0] = (char)depth;
	return depth ? deep(depth - 1) + frame[0] - frame[0] : 0;
}

int main(void)
{
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
	limit.rlim_cur = 64 << 20;
	if (limit.rlim_max < limit.rlim_cur)
		limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
	if (limit.rlim_cur == 64 << 20)
		CHECK(deep(8000) == 0);
	say("deep");
	return 0;
}
