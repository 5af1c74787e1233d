// A timer is cancelled, and what its function uses is taken away: the function may have begun.
#include "corpus.h"

struct request {
	atomic_int is_alive;
	pthread_mutex_t lock;
	int is_cancelled;
};

static struct request request = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *timer(void *unused)
{
	pthread_mutex_lock(&request.lock);
	int is_cancelled = request.is_cancelled;
	pthread_mutex_unlock(&request.lock);
	if (!is_cancelled && !atomic_load(&request.is_alive))
		caught("a timer fired for a request that was gone");
	return unused;
}

int main(void)
{
	atomic_store(&request.is_alive, 1);
	pthread_t thread = start(timer, NULL);
	pthread_mutex_lock(&request.lock);
	request.is_cancelled = 1;
	pthread_mutex_unlock(&request.lock);
	atomic_store(&request.is_alive, 0);
	pthread_join(thread, NULL);
	return 0;
}
