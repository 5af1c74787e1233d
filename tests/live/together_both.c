// Processes that share memory take checkpoints and go back at the same time, each for itself: one
// goes first, and none waits for another that waits for it.
// prints: both went on
#include "live.h"
#include <pthread.h>
#include <sys/prctl.h>

#define ROUNDS 40

struct shared {
	pthread_mutex_t lock;
	long counts[2], total;
};

static struct shared *shared;
static long own;

static void step(int me)
{
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	CHECK(shared->counts[me] == own && shared->counts[0] + shared->counts[1] == shared->total);
	shared->counts[me] = ++own;
	shared->total++;
	CHECK(pthread_mutex_unlock(&shared->lock) == 0);
}

// Does not go back.
static int rounds_made(int file)
{
	int count = 0;
	CHECK(pread(file, &count, sizeof count, 0) >= 0);
	count++;
	CHECK(pwrite(file, &count, sizeof count, 0) == sizeof count);
	return count;
}

static void go(int me)
{
	char name[] = "rounds-XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0 && unlink(name) == 0);
	while (rounds_made(file) < ROUNDS) {
		step(me);
		int id = rv_checkpoint();
		step(me);
		if (id < 0) {
			CHECK(errno == EBUSY || errno == EAGAIN || errno == ETIMEDOUT);
			continue;
		}
		if (rv_rollbacks(id) == 0) {
			// The other one may be about to begin or to end, or have dropped it.
			CHECK(rv_rollback(id) == -1);
			CHECK(errno == EBUSY || errno == EAGAIN || errno == ESRCH || errno == ENOENT);
		}
		step(me);
		rv_discard(id);
	}
}

int main(void)
{
	need_session();
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pthread_mutexattr_t common;
	CHECK(pthread_mutexattr_init(&common) == 0 && pthread_mutexattr_setpshared(&common, 1) == 0);
	CHECK(pthread_mutex_init(&shared->lock, &common) == 0);
	int done[2];
	CHECK(pipe(done) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		go(1);
		// Going back brings back nobody who has ended.
		char byte;
		CHECK(read(done[0], &byte, 1) == 1);
		_exit(0);
	}
	go(0);
	write_all(done[1], "x", 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("both went on");
	return 0;
}
