// A pool is stopped twice at once: both find it running, and both release what it has.
#include "corpus.h"

static atomic_int is_running = 1, released;

static void stop(void)
{
	if (atomic_load(&is_running)) {
		if (atomic_fetch_add(&released, 1) != 0)
			caught("the pool was released twice");
		atomic_store(&is_running, 0);
	}
}

static void *stop_from_thread(void *unused)
{
	stop();
	return unused;
}

int main(void)
{
	pthread_t thread = start(stop_from_thread, NULL);
	stop();
	pthread_join(thread, NULL);
	return 0;
}
