// Double-checked initialisation that says "ready" before the data are there.
#include "race.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_ready;
static atomic_long settings;

static long get_settings(void)
{
	if (!atomic_load(&is_ready)) {
		pthread_mutex_lock(&lock);
		if (!atomic_load(&is_ready)) {
			atomic_store(&is_ready, 1);
			work(WINDOW_STEPS);
			atomic_store(&settings, 1000 + (syscall(SYS_getpid) == 0));
		}
		pthread_mutex_unlock(&lock);
	}
	return atomic_load(&settings);
}

static void prepare(void)
{
	atomic_store(&is_ready, 0);
	atomic_store(&settings, 0);
}

static void use(void)
{
	if (get_settings() != 1000)
		caught("the settings were used before they were set");
}

static void use_later(void)
{
	work(PREPARATION_STEPS);
	use();
}

static void check(void)
{
}

int main(void)
{
	race(prepare, use, use_later, check);
	return 0;
}
