// What threads are called: tids, names, /proc/self/task, tgkill and tkill at them.
// covers: gettid tgkill tkill prctl
#include "threads.h"
#include <dirent.h>
#include <semaphore.h>

static sem_t leave;
static atomic_int tids[3], hits;
static __thread int hit_here;

static void on_usr1(int number)
{
	(void)number;
	hit_here++;
	atomic_fetch_add(&hits, 1);
}

static void *wait_for_leave(void *argument)
{
	long index = (long)argument;
	char name[16];
	snprintf(name, sizeof name, "guest-%ld", index);
	CHECK(pthread_setname_np(pthread_self(), name) == 0);
	announce(&tids[index]);
	while (sem_wait(&leave) == -1)
		CHECK(errno == EINTR);
	return (void *)(long)hit_here;
}

static int count_tasks(void)
{
	int count = 0;
	DIR *directory = opendir("/proc/self/task");
	CHECK(directory);
	for (struct dirent *entry; (entry = readdir(directory));)
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

int main(void)
{
	pthread_t threads[3];
	CHECK(sem_init(&leave, 0, 0) == 0);
	handle(SIGUSR1, on_usr1, 0);
	for (long i = 0; i < 3; i++) {
		threads[i] = start(wait_for_leave, (void *)i);
		nondet("tid %d", await(&tids[i]));
		CHECK(tids[i] != getpid());
	}
	say("distinct %d, tasks %d", tids[0] != tids[1] && tids[1] != tids[2] && tids[0] != tids[2],
	    count_tasks());
	for (int i = 0; i < 3; i++) {
		char name[16];
		CHECK(pthread_getname_np(threads[i], name, sizeof name) == 0);
		say("name %s", name);
	}
	// The next signal goes out when the last has been handled: none is merged with another.
	for (int i = 0; i < 9; i++) {
		CHECK(syscall(SYS_tgkill, getpid(), tids[i % 3], SIGUSR1) == 0);
		while (atomic_load(&hits) < 2 * i + 1)
			sched_yield();
		CHECK(syscall(SYS_tkill, tids[i % 2], SIGUSR1) == 0);
		while (atomic_load(&hits) < 2 * i + 2)
			sched_yield();
	}
	CHECK(syscall(SYS_tgkill, getpid(), tids[0], 0) == 0);
	CHECK_ERR(syscall(SYS_tgkill, getpid() + 1, tids[0], 0), ESRCH);
	CHECK_ERR(syscall(SYS_tgkill, -1, tids[0], 0), EINVAL);
	CHECK_ERR(syscall(SYS_tkill, tids[0], 99), EINVAL);
	for (int i = 0; i < 3; i++)
		CHECK(sem_post(&leave) == 0);
	for (int i = 0; i < 3; i++)
		say("thread %d was hit %ld times", i, join(threads[i]));
	CHECK(kill(getpid(), 0) == 0 && hit_here == 0);
	return 0;
}
