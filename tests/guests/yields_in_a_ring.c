// Threads pass a word on to the next one, and the others let each other have the processor by
// sched_yield(2) meanwhile; so do processes that share memory.
// covers: sched_yield
#include "threads.h"
#include <sys/mman.h>

#define MEMBERS 6
#define ROUNDS 50

struct ring {
	atomic_int whose;
	int rounds[MEMBERS];
};

static void pass_on(struct ring *ring, int own)
{
	for (int i = 0; i < ROUNDS; i++) {
		while (atomic_load(&ring->whose) != own)
			CHECK(sched_yield() == 0);
		ring->rounds[own] = i + 1;
		atomic_store(&ring->whose, (own + 1) % MEMBERS);
	}
}

static struct ring of_threads;

static void *member(void *own)
{
	pass_on(&of_threads, (int)(long)own);
	return NULL;
}

static void show(const char *name, const struct ring *ring)
{
	printf("%s:", name);
	for (int i = 0; i < MEMBERS; i++)
		printf(" %d", ring->rounds[i]);
	printf(", then %d\n", ring->whose);
}

int main(void)
{
	pthread_t threads[MEMBERS];
	for (long i = 0; i < MEMBERS; i++)
		threads[i] = start(member, (void *)i);
	for (int i = 0; i < MEMBERS; i++)
		join(threads[i]);
	show("threads", &of_threads);

	struct ring *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid_t children[MEMBERS];
	for (int i = 0; i < MEMBERS; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0) {
			pass_on(shared, i);
			_exit(0);
		}
	}
	for (int i = 0; i < MEMBERS; i++) {
		int status;
		CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
	}
	show("processes", shared);
	return 0;
}
