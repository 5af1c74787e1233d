// Threads that are created, compute, return values and are joined.
// covers: clone3 clone gettid
#include "threads.h"

struct job {
	uint64_t seed, result;
	pid_t tid;
	int own_errno;
};

static void *work(void *argument)
{
	struct job *job = argument;
	job->tid = own_tid();
	errno = 0;
	CHECK(close(-1 - (int)(job->seed & 1)) == -1);
	job->result = compute(job->seed, 100000);
	job->own_errno = errno;
	return (void *)(long)(job->seed * 3);
}

static void *nest(void *argument)
{
	long depth = (long)argument;
	return (void *)(depth == 0 ? 1 : 1 + join(start(nest, (void *)(depth - 1))));
}

static void *leave_early(void *argument)
{
	if (argument)
		pthread_exit((void *)0x77);
	return NULL;
}

int main(void)
{
	struct job jobs[8];
	pthread_t threads[8];
	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < COUNT(jobs); i++) {
			jobs[i] = (struct job){.seed = i + 10 * round};
			threads[i] = start(work, &jobs[i]);
		}
		for (unsigned i = 0; i < COUNT(jobs); i++) {
			long result = join(threads[i]);
			say("thread %u returned %ld, computed %llx, errno %s", i, result,
			    (unsigned long long)jobs[i].result, errno_name(jobs[i].own_errno));
			nondet("its tid was %d", jobs[i].tid);
			CHECK(jobs[i].tid != getpid());
		}
	}
	say("nested %ld deep", join(start(nest, (void *)10)));
	say("pthread_exit gave %#lx", join(start(leave_early, (void *)1)));
	say("a return gave %#lx", join(start(leave_early, NULL)));
	CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
	for (int i = 0; i < 200; i++)
		CHECK(join(start(leave_early, NULL)) == 0);
	say("two hundred, one after the other");
	return 0;
}
