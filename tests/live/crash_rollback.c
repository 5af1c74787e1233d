// A crash of one thread is rolled back by its handler; the second time the program does
// not do what crashed it, and ends well.
// prints: try 0
// prints: try 1
// prints: eight threads made 8000 steps
#include "live.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int id, steps, value, is_careful;
static int *volatile pointer = &value;

static void crash(int number)
{
	(void)number;
	back(id);
}

static void *work(void *argument)
{
	for (int i = 0; i < 1000; i++) {
		CHECK(pthread_mutex_lock(&lock) == 0);
		if (++steps == 5000 && !is_careful)
			pointer = NULL;
		*pointer += 1;
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	return argument;
}

int main(void)
{
	need_session();
	handle(SIGSEGV, crash, 0);
	pthread_t threads[8];
	CHECK(pthread_mutex_lock(&lock) == 0);
	for (int i = 0; i < 8; i++)
		threads[i] = start(work, NULL);
	id = checkpoint();
	is_careful = rv_rollbacks(id);
	say("try %d", is_careful);
	CHECK(steps == 0 && value == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	for (int i = 0; i < 8; i++)
		join(threads[i]);
	CHECK(value == 8000);
	say("eight threads made %d steps", steps);
	return 0;
}
