// Random bytes: their use decides what the program does next.
// covers: getrandom
#include "guest.h"
#include <sys/auxv.h>
#include <sys/random.h>

int main(void)
{
	unsigned char bytes[300];
	char name[16];
	CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
	nondet("hash %llx", (unsigned long long)hash_bytes(bytes, sizeof bytes));
	CHECK(getrandom(bytes, 16, GRND_NONBLOCK) == 16);
	CHECK(getrandom(bytes, 16, GRND_RANDOM) > 0);
	CHECK(getentropy(bytes, 256) == 0);
	CHECK_ERR(getrandom(bytes, 16, 0x7777), EINVAL);
	// A number of calls, of files and of branches that chance decides.
	for (int i = 0; i < bytes[0] % 50; i++) {
		snprintf(name, sizeof name, "%02x", bytes[i + 1]);
		write_file(name, name);
		nondet("%s %d", name, access(name, F_OK));
	}
	const unsigned char *start = (const void *)getauxval(AT_RANDOM);
	nondet("AT_RANDOM %llx", (unsigned long long)hash_bytes(start, 16));
	nondet("stack %p heap %p code %p", (void *)name, malloc(10), (void *)main);
	nondet("AT_BASE %lx AT_PHDR %lx", getauxval(AT_BASE), getauxval(AT_PHDR));
	say("random bytes used");
	return 0;
}
