// Threads cancelled in a blocking call, at a point of their own, and in the midst of computing.
// covers: tgkill rt_sigreturn
#include "threads.h"

static atomic_int here, cleaned;
static int pipe_ends[2];

static void clean(void *argument)
{
	atomic_fetch_add(&cleaned, (int)(long)argument);
}

static void *in_read(void *argument)
{
	char byte;
	(void)argument;
	pthread_cleanup_push(clean, (void *)1);
	announce(&here);
	CHECK(read(pipe_ends[0], &byte, 1) == 1);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *at_a_point(void *argument)
{
	(void)argument;
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
	pthread_cleanup_push(clean, (void *)10);
	announce(&here);
	// Without a point it goes on, also through a call that would be one.
	while (atomic_load(&cleaned) < 1000) {
		struct timespec none = {0, 0};
		CHECK(nanosleep(&none, NULL) == 0);
	}
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

static void *computing(void *argument)
{
	volatile uint64_t state = 1;
	(void)argument;
	CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
	post(&here, 1);
	for (;;)
		state = state * 5 + 1;
	return NULL;
}

static void cancelled(const char *name, void *(*body)(void *), int blocks)
{
	atomic_store(&here, 0);
	pthread_t thread = start(body, NULL);
	if (blocks)
		until_asleep(&here);
	else
		await(&here);
	CHECK(pthread_cancel(thread) == 0);
	if (body == at_a_point)
		atomic_fetch_add(&cleaned, 1000);
	int is_cancelled = join(thread) == (long)PTHREAD_CANCELED;
	say("%s: cancelled %d, cleaned %d", name, is_cancelled, atomic_load(&cleaned));
}

int main(void)
{
	CHECK(pipe(pipe_ends) == 0);
	for (int i = 0; i < 5; i++) {
		atomic_store(&cleaned, 0);
		cancelled("in read", in_read, 1);
		cancelled("at a point", at_a_point, 0);
		cancelled("computing", computing, 0);
	}
	return 0;
}
