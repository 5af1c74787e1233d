// Stacks of threads: small, large, given by the program, with guard pages; deep use of each.
// covers: mmap mprotect munmap madvise
#include "threads.h"
#include <sys/mman.h>

#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) static long deep(long depth)
{
	volatile char block[1024];
	block[depth % 1024] = (char)depth;
	return depth == 0 ? 0 : deep(depth - 1) + block[depth % 1024];
}

static void *use(void *argument)
{
	size_t size, guard;
	void *low;
	pthread_attr_t attributes;
	char here;
	CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
	CHECK(pthread_attr_getstack(&attributes, &low, &size) == 0);
	CHECK(pthread_attr_getguardsize(&attributes, &guard) == 0);
	CHECK(&here >= (char *)low && &here < (char *)low + size);
	nondet("stack at %p, %zu bytes", low, size);
	CHECK(pthread_attr_destroy(&attributes) == 0);
	return (void *)deep((long)argument);
}

static long run(pthread_attr_t *attributes, long depth)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, attributes, use, (void *)depth) == 0);
	return join(thread);
}

int main(void)
{
	pthread_attr_t attributes;
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
	say("small: %ld", run(&attributes, 20));
	CHECK(pthread_attr_setstacksize(&attributes, 16 << 20) == 0);
	say("large: %ld", run(&attributes, 8000));
	CHECK(pthread_attr_setguardsize(&attributes, 1 << 20) == 0);
	say("large guard: %ld", run(&attributes, 100));
	void *stack = mmap(NULL, 256 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != MAP_FAILED);
	CHECK(pthread_attr_setstack(&attributes, stack, 256 << 10) == 0);
	for (int i = 0; i < 3; i++)
		say("its own: %ld", run(&attributes, 100 + i));
	CHECK(munmap(stack, 256 << 10) == 0);
	CHECK(pthread_attr_setstacksize(&attributes, 100) == EINVAL);
	return 0;
}
