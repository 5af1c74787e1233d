// Built with AddressSanitizer and UndefinedBehaviorSanitizer: their reports, and the leak
// detector, which stops all threads at the end.
// not-by: write-protection sums
// covers: ptrace wait4
// build: -fsanitize=address,undefined -Wno-use-after-free
// variants: O0 O2
#include "sanitizer.h"

static void *volatile kept;
static int pipe_ends[2];

const char *__asan_default_options(void)
{
	return "exitcode=23:detect_leaks=1";
}

static void *keep_in_thread(void *argument)
{
	char byte;
	void *volatile own = malloc(77);
	post(argument, own_tid());
	CHECK(read(pipe_ends[0], &byte, 1) == 1);
	free(own);
	return NULL;
}

__attribute__((noinline)) static void lose(void)
{
	for (int i = 0; i < 10; i++) {
		kept = malloc(100);
		memset(kept, 1, 100);
		kept = NULL;
	}
}

__attribute__((noinline)) static int overwrite_stack(void)
{
	volatile char bytes[8192];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)i;
	return bytes[100];
}

static int leak_among_threads(void)
{
	static atomic_int begun[2];
	CHECK(pipe(pipe_ends) == 0);
	for (int i = 0; i < 2; i++) {
		start(keep_in_thread, &begun[i]);
		until_asleep(&begun[i]);
	}
	lose();
	return overwrite_stack() == 1;
}

static int keep_all(void)
{
	static atomic_int begun;
	CHECK(pipe(pipe_ends) == 0);
	start(keep_in_thread, &begun);
	until_asleep(&begun);
	return 5;
}

static int use_after_free(void)
{
	volatile char *bytes = malloc(33);
	free((void *)bytes);
	return bytes[7];
}

static int overflow_stack_array(void)
{
	volatile int array[8];
	volatile int index = 8;
	array[index] = 1;
	return array[0];
}

static int overflow_integer(void)
{
	volatile int large = INT_MAX;
	large++;
	return 6;
}

int main(void)
{
	report_of("leak", leak_among_threads,
		  (const char *[]){"LeakSanitizer: detected memory leaks", "Direct leak of", "fatal", NULL});
	report_of("no leak", keep_all, (const char *[]){"leak", "fatal", NULL});
	report_of("use after free", use_after_free,
		  (const char *[]){"heap-use-after-free", "READ of size 1", NULL});
	report_of("stack", overflow_stack_array, (const char *[]){"stack-buffer-overflow", NULL});
	report_of("integer", overflow_integer, (const char *[]){"signed integer overflow", NULL});
	return 0;
}
