// Shared memory without a file that no other process has: memory, as other memory is.
// prints: rolled back
// prints: replayed
#include "live.h"

int main(void)
{
	need_session();
	volatile char *at =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	at[0] = 'a';
	int id = checkpoint();
	CHECK(at[0] == 'a' && at[PAGE] == 0);
	at[0] = 'b';
	at[PAGE] = 'c';
	if (first_time(id))
		back(id);
	say("rolled back");
	again(id);
	CHECK(at[0] == 'b' && at[PAGE] == 'c');
	say("replayed");
	forget(id);
	return 0;
}
