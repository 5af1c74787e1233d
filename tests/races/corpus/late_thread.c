// A session is freed while its worker, which was told to end and not waited for, still uses it.
#include "corpus.h"

struct session {
	atomic_int is_closed, served;
	int valid;
};

static void *serve(void *argument)
{
	struct session *session = argument;
	while (!atomic_load(&session->is_closed)) {
		atomic_fetch_add(&session->served, 1);
		if (session->valid != 1234)
			caught("a session was used after it was freed");
	}
	return NULL;
}

int main(void)
{
	for (int i = 0; i < 20; i++) {
		struct session *session = calloc(1, sizeof *session);
		session->valid = 1234;
		pthread_t worker = start(serve, session);
		while (!atomic_load(&session->served))
			sched_yield();
		atomic_store(&session->is_closed, 1);
		session->valid = 0;
		free(session);
		pthread_join(worker, NULL);
	}
	return 0;
}
