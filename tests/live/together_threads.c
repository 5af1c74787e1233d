// Three processes of three threads each, with a mutex and a counter in shared memory and
// counts of their own, go back together many times, and do the same again many times.
// prints: 20 rollbacks, 20 replays: all agree
#include "live.h"

enum { PROCESSES = 3, THREADS = 3, TIMES = 20 };

struct shared {
	pthread_mutex_t mutex;
	// Guarded by the mutex: how often each process counted, and all of them.
	int counts[PROCESSES];
	int total;
	atomic_int stop;
	atomic_int bad;
};

static struct shared *shared;
static int number;
// Guarded by the mutex, too.
static int own_count;

static void *count(void *unused)
{
	(void)unused;
	while (!atomic_load(&shared->stop)) {
		CHECK(pthread_mutex_lock(&shared->mutex) == 0);
		own_count++;
		shared->counts[number]++;
		shared->total++;
		int sum = 0;
		for (int i = 0; i < PROCESSES; i++)
			sum += shared->counts[i];
		if (own_count != shared->counts[number] || sum != shared->total)
			atomic_store(&shared->bad, 1);
		CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
		usleep(200);
	}
	return NULL;
}

static void run(int which)
{
	number = which;
	pthread_t threads[THREADS - 1];
	for (int i = 0; i < THREADS - 1; i++)
		CHECK(pthread_create(&threads[i], NULL, count, NULL) == 0);
	count(NULL);
	for (int i = 0; i < THREADS - 1; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	exit(0);
}

static int total_now(void)
{
	CHECK(pthread_mutex_lock(&shared->mutex) == 0);
	int total = shared->total;
	CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
	return total;
}

int main(void)
{
	need_session();
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pthread_mutexattr_t attributes;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
	CHECK(pthread_mutex_init(&shared->mutex, &attributes) == 0);
	pid_t children[PROCESSES];
	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0)
			run(i);
	}
	for (int i = 0; i < TIMES; i++) {
		while (total_now() < 20 * (i + 1))
			usleep(500);
		int id = checkpoint();
		int before = total_now();
		while (total_now() < before + 10)
			usleep(500);
		if (first_time(id))
			back(id);
		CHECK(before <= total_now());
		again(id);
		forget(id);
		CHECK(!atomic_load(&shared->bad));
	}
	atomic_store(&shared->stop, 1);
	for (int i = 0; i < PROCESSES; i++) {
		int status;
		CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
	}
	CHECK(!atomic_load(&shared->bad));
	say("%d rollbacks, %d replays: all agree", TIMES, TIMES);
	return 0;
}
