// The program's code is not all known any more since a checkpoint, so that to read the time stamp
// counter traps. A replay and a rollback lead to before that: threads of then, and those that are made
// again, ask for the time as they did.
// prints: replayed: 3 threads have the time
// prints: rolled back: 3 threads have the time
#include "live.h"
#include <semaphore.h>
#include <time.h>

#define ASKS 100

static sem_t asked, answered;

static void ask_for_time(void)
{
	struct timespec last = {0, 0}, now;
	for (int i = 0; i < ASKS; i++) {
		CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
		CHECK(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
		last = now;
	}
}

static void *asks(void *unused)
{
	for (;;) {
		CHECK(sem_wait(&asked) == 0);
		ask_for_time();
		CHECK(sem_post(&answered) == 0);
	}
	return unused;
}

static void *asks_once(void *unused)
{
	ask_for_time();
	return unused;
}

static void all_ask(void)
{
	ask_for_time();
	CHECK(sem_post(&asked) == 0 && sem_wait(&answered) == 0);
	join(start(asks_once, NULL));
}

// Reads the counter by code that was not there before.
static void generate(void)
{
	static const unsigned char code[] = {0x0f, 0x31, 0xc3}; // rdtsc, ret
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	memcpy(page, code, sizeof code);
	((void (*)(void))page)();
	CHECK(munmap(page, PAGE) == 0);
}

int main(void)
{
	need_session();
	CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
	start(asks, NULL);
	all_ask();
	int id = checkpoint();
	if (first_time(id)) {
		all_ask();
		generate();
		all_ask();
		if (!rv_replaying())
			again(id);
		all_ask();
		say("replayed: 3 threads have the time");
		back(id);
	}
	all_ask();
	say("rolled back: 3 threads have the time");
	forget(id);
	return 0;
}
