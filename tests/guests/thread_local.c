// Thread-local storage: initialised, aligned, large, and by keys with destructors.
// covers: arch_prctl mmap
#include "threads.h"
#include <asm/prctl.h>

static __thread long initialised = 77;
static __thread long zero;
static __thread struct {
	char bytes[5000];
} large __attribute__((aligned(64)));

static pthread_key_t keys[3];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int made, destroyed;

static void make_keys(void)
{
	atomic_fetch_add(&made, 1);
}

static void destroy(void *value)
{
	atomic_fetch_add(&destroyed, (int)(long)value);
}

struct seen {
	unsigned long fs;
	void *address;
};

static void *use(void *argument)
{
	struct seen *seen = argument;
	CHECK(pthread_once(&once, make_keys) == 0);
	CHECK(initialised == 77 && zero == 0 && large.bytes[4999] == 0);
	CHECK((uintptr_t)&large % 64 == 0);
	for (long i = 0; i < 3; i++) {
		CHECK(pthread_getspecific(keys[i]) == NULL);
		CHECK(pthread_setspecific(keys[i], (void *)(i + 1)) == 0);
	}
	for (int i = 0; i < 1000; i++) {
		initialised += i;
		zero -= i;
		large.bytes[i * 4] = (char)i;
		if (i % 250 == 0)
			sched_yield();
	}
	CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &seen->fs) == 0);
	CHECK(*(unsigned long *)seen->fs == seen->fs);
	seen->address = &zero;
	CHECK(zero == -499500 && large.bytes[3996] == (char)999);
	return (void *)initialised;
}

int main(void)
{
	pthread_t threads[6];
	struct seen seen[6];
	for (int i = 0; i < 3; i++)
		CHECK(pthread_key_create(&keys[i], destroy) == 0);
	zero = 5;
	for (int i = 0; i < 6; i++)
		threads[i] = start(use, &seen[i]);
	for (int i = 0; i < 6; i++) {
		say("thread %d: %ld", i, join(threads[i]));
		nondet("fs %lx, variable at %p", seen[i].fs, seen[i].address);
		CHECK(seen[i].address != &zero);
	}
	say("made %d, destroyed %d, the main thread's %ld", made, destroyed, zero);
	return 0;
}
