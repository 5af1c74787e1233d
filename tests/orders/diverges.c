// Does something else when it does the same again, before it has read what it read: more than
// the session feeds it at a time.
#include "live.h"

int main(void)
{
	static char bytes[64 * 1024];
	int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	CHECK(zeros >= 0);
	int id = checkpoint();
	if (rv_replaying())
		getppid();
	for (int i = 0; i < 64; i++)
		read_all(zeros, bytes, sizeof bytes);
	again(id);
	return 0;
}
