// Threads that are in a blocking call at a checkpoint are after a rollback as if about
// to begin it: on a condition variable, in read, poll, sem_wait and sigsuspend.
// prints: all five are blocked
// prints: reader: r, poller: 1, waiter, poster, handler
// prints: reader: r, poller: 1, waiter, poster, handler
// prints: done
#include "live.h"
#include <semaphore.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int is_set, input[2], event[2];
static atomic_int asleep[5], handled;

static void note(int number)
{
	(void)number;
	atomic_store(&handled, 1);
}

static void *read_it(void *argument)
{
	char byte;
	announce(&asleep[0]);
	CHECK(read(input[0], &byte, 1) == 1);
	CHECK(argument == NULL);
	return (void *)(long)byte;
}

static void *poll_it(void *argument)
{
	struct pollfd wanted = {.fd = event[0], .events = POLLIN};
	(void)argument;
	announce(&asleep[1]);
	return (void *)(long)poll(&wanted, 1, -1);
}

static void *wait_for_it(void *argument)
{
	announce(&asleep[2]);
	CHECK(pthread_mutex_lock(&lock) == 0);
	while (!is_set)
		CHECK(pthread_cond_wait(&condition, &lock) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	return argument;
}

static void *take_it(void *argument)
{
	announce(&asleep[3]);
	CHECK(sem_wait(&semaphore) == 0);
	return argument;
}

static void *be_signalled(void *argument)
{
	sigset_t none;
	sigemptyset(&none);
	announce(&asleep[4]);
	CHECK(sigsuspend(&none) == -1 && errno == EINTR);
	CHECK(atomic_load(&handled));
	return argument;
}

int main(void)
{
	static void *(*const bodies[])(void *) = {read_it, poll_it, wait_for_it, take_it, be_signalled};
	pthread_t threads[5];
	need_session();
	CHECK(sem_init(&semaphore, 0, 0) == 0);
	CHECK(pipe(input) == 0 && pipe(event) == 0);
	int ask[2];
	CHECK(pipe(ask) == 0);
	// The child writes what is asked for: its bytes come from outside.
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		close(ask[1]);
		while (read(ask[0], &byte, 1) == 1)
			CHECK(write(byte == 'r' ? input[1] : event[1], &byte, 1) == 1);
		_exit(0);
	}
	close(ask[0]);
	handle(SIGUSR1, note, 0);
	mask(SIG_BLOCK, SIGUSR1);
	for (int i = 0; i < 5; i++)
		threads[i] = start(bodies[i], NULL);
	for (int i = 0; i < 5; i++)
		until_asleep(&asleep[i]);
	say("all five are blocked");

	int id = checkpoint();
	int is_first = first_time(id);
	CHECK(!is_set && !atomic_load(&handled));
	// What was read since is read again: it is asked for only once.
	if (is_first)
		CHECK(write(ask[1], "r", 1) == 1);
	long letter = join(threads[0]);
	if (is_first)
		CHECK(write(ask[1], "x", 1) == 1);
	long ready = join(threads[1]);
	CHECK(pthread_mutex_lock(&lock) == 0);
	is_set = 1;
	CHECK(pthread_cond_signal(&condition) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	join(threads[2]);
	CHECK(sem_post(&semaphore) == 0);
	join(threads[3]);
	CHECK(pthread_kill(threads[4], SIGUSR1) == 0);
	join(threads[4]);
	say("reader: %c, poller: %ld, waiter, poster, handler", (char)letter, ready);
	if (is_first)
		back(id);
	close(ask[1]);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("done");
	return 0;
}
