// Uses a block that it has freed, and frees one twice.
// options: --on-crash=rollback:9 --recover=keep-freed
// prints: its name is kept
// prints: twice is once
// prints: memory comes back
// says: so that what is freed is kept for some time
#include "recover.h"

int main(void)
{
	begin();
	checkpoint();
	struct named *named = allocate(MALLOC, sizeof *named);
	*named = (struct named){"its name", 1};
	seen = named;
	release(named);
	char *other = allocate(MALLOC, sizeof *named);
	fill(other, 'A', sizeof *named);
	say("%s is kept", seen->text);
	release(other);
	char *twice = allocate(MALLOC, 100);
	release(twice);
	release(twice);
	release(NULL);
	say("twice is once");
	// Not for ever: of blocks of 1000 bytes and of 100,000 a few are in use at a time.
	for (int i = 0; i < 100000; i++)
		release(allocate(MALLOC, 1000));
	for (int i = 0; i < 1000; i++)
		release(allocate(MALLOC, 100000));
	struct mallinfo2 use = mallinfo2();
	CHECK(use.arena < (size_t)8 << 20 && use.hblkhd < (size_t)8 << 20);
	say("memory comes back");
	survived();
	return 0;
}
