// A pool of workers that take tasks, some of which make further tasks.
// covers: futex
#include "threads.h"

#define WORKERS 4

struct task {
	struct task *next;
	long low, high;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, all_done = PTHREAD_COND_INITIALIZER;
static struct task *tasks;
static int unfinished, is_closed;
static uint64_t total;

static void add_task(long low, long high)
{
	struct task *task = malloc(sizeof *task);
	CHECK(task);
	CHECK(pthread_mutex_lock(&lock) == 0);
	*task = (struct task){tasks, low, high};
	tasks = task;
	unfinished++;
	CHECK(pthread_cond_signal(&more) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
}

// Splits what is long, and computes what is short.
static uint64_t run(const struct task *task)
{
	uint64_t sum = 0;
	if (task->high - task->low > 16) {
		long middle = (task->low + task->high) / 2;
		add_task(task->low, middle);
		add_task(middle, task->high);
		return 0;
	}
	for (long i = task->low; i < task->high; i++)
		sum += compute((uint64_t)i, 100);
	return sum;
}

static void *work(void *argument)
{
	long count = 0;
	CHECK(pthread_mutex_lock(&lock) == 0);
	for (;;) {
		while (!tasks && !is_closed)
			CHECK(pthread_cond_wait(&more, &lock) == 0);
		if (!tasks)
			break;
		struct task *task = tasks;
		tasks = task->next;
		CHECK(pthread_mutex_unlock(&lock) == 0);
		uint64_t sum = run(task);
		free(task);
		count++;
		CHECK(pthread_mutex_lock(&lock) == 0);
		total += sum;
		if (--unfinished == 0)
			CHECK(pthread_cond_signal(&all_done) == 0);
	}
	CHECK(pthread_mutex_unlock(&lock) == 0);
	*(long *)argument = count;
	return NULL;
}

int main(void)
{
	pthread_t workers[WORKERS];
	long counts[WORKERS], sum = 0;
	for (int i = 0; i < WORKERS; i++)
		workers[i] = start(work, &counts[i]);
	for (int round = 0; round < 3; round++) {
		add_task(round * 1000, (round + 1) * 1000);
		CHECK(pthread_mutex_lock(&lock) == 0);
		while (unfinished > 0)
			CHECK(pthread_cond_wait(&all_done, &lock) == 0);
		say("round %d: %llx", round, (unsigned long long)total);
		CHECK(pthread_mutex_unlock(&lock) == 0);
	}
	CHECK(pthread_mutex_lock(&lock) == 0);
	is_closed = 1;
	CHECK(pthread_cond_broadcast(&more) == 0);
	CHECK(pthread_mutex_unlock(&lock) == 0);
	for (int i = 0; i < WORKERS; i++) {
		join(workers[i]);
		nondet("worker %d: %ld tasks", i, counts[i]);
		sum += counts[i];
	}
	say("tasks %ld", sum);
	return 0;
}
