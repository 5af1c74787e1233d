// What the programs share that go back instead of dying, and on in a changed environment.
//
// Header lines: `// prints:` the lines of each run that ends well, up to "survived";
// `// says:` what the session says; `// options:` of `retrovane live`;
// `// unchanged:` the code is as it was in the run that ends well;
// `// once:` it would not survive a second time, as all ways were tried.
#ifndef RECOVER_H
#define RECOVER_H
#include "live.h"
#include <malloc.h>

static sigset_t go_on;

// Behind this comes the checkpoint that it goes back to.
GUEST_FN void begin(void)
{
	CHECK(sigemptyset(&go_on) == 0 && sigaddset(&go_on, SIGUSR1) == 0);
	CHECK(pthread_sigmask(SIG_BLOCK, &go_on, NULL) == 0);
	need_session();
}

// Waits until somebody has looked.
GUEST_FN void survived(void)
{
	say("survived");
	CHECK(sigwaitinfo(&go_on, NULL) == SIGUSR1);
	say("end");
}

// Allocations of all kinds, of which the compiler knows nothing.
enum kind { MALLOC, CALLOC, REALLOC, GROWN, POSIX_MEMALIGN, ALIGNED_ALLOC, MEMALIGN, KINDS };

__attribute__((noinline, noclone)) GUEST_FN void *allocate(enum kind kind, volatile size_t bytes)
{
	void *at = NULL;
	switch (kind) {
	case MALLOC:
		at = malloc(bytes);
		break;
	case CALLOC:
		at = calloc(1, bytes);
		break;
	case REALLOC:
		at = realloc(NULL, bytes);
		break;
	case GROWN:
		at = realloc(malloc(8), bytes);
		break;
	case POSIX_MEMALIGN:
		CHECK(posix_memalign(&at, 32, bytes) == 0);
		break;
	case ALIGNED_ALLOC:
		at = aligned_alloc(32, bytes);
		break;
	case MEMALIGN:
		at = memalign(64, bytes);
		break;
	case KINDS:
		break;
	}
	CHECK(at);
	return at;
}

__attribute__((noinline, noclone)) GUEST_FN void release(void *volatile at)
{
	free(at);
}

// Writes so many bytes, whether or not there is room.
__attribute__((noinline, noclone)) GUEST_FN void fill(void *volatile at, int byte, volatile size_t bytes)
{
	memset(at, byte, bytes);
	// Whoever reads it next does not know what is there.
	__asm__ volatile("" ::: "memory");
}

struct named {
	const char *text;
	long value;
};

// What is read through it is read from memory.
static struct named *volatile seen;

#endif
