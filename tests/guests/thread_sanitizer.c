// Built with ThreadSanitizer, which reserves all memory that it does not use, and wants to
// know what else is there.
// not-by: write-protection sums
// covers: mmap
// build: -fsanitize=thread
// variants: O0 O2
#include "sanitizer.h"

static int shared;

const char *__tsan_default_options(void)
{
	return "exitcode=24";
}

static void *add(void *argument)
{
	for (int i = 0; i < 1000; i++)
		shared++;
	return argument;
}

static void *add_locked(void *argument)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(argument);
		shared++;
		pthread_mutex_unlock(argument);
	}
	return argument;
}

static int race(void)
{
	pthread_t first = start(add, NULL), second = start(add, NULL);
	join(first);
	join(second);
	return 0;
}

static int take_turns(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t first = start(add_locked, &lock), second = start(add_locked, &lock);
	join(first);
	join(second);
	return shared == 2000 ? 7 : 8;
}

int main(void)
{
	report_of("race", race, (const char *[]){"ThreadSanitizer: data race", "FATAL", NULL});
	report_of("no race", take_turns, (const char *[]){"ThreadSanitizer", NULL});
	return 0;
}
