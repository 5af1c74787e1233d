// Process and thread ids, parent, group and session stay in a rollback, those of a
// thread that ended since too: it can be signalled by its id.
// prints: the ids are the same
// prints: the signal came to the thread
#include "live.h"

static atomic_int ready, go, tid_in_handler;

static void note(int number)
{
	(void)number;
	atomic_store(&tid_in_handler, own_tid());
}

static void *work(void *argument)
{
	*(atomic_int *)argument = own_tid();
	post(&ready, 1);
	await(&go);
	return (void *)(long)own_tid();
}

int main(void)
{
	need_session();
	handle(SIGUSR1, note, SA_RESTART);
	atomic_int tid;
	pthread_t thread = start(work, &tid);
	await(&ready);
	pid_t ids[] = {getpid(), own_tid(), getppid(), getpgrp(), getsid(0)};
	int id = checkpoint();
	if (first_time(id)) {
		post(&go, 1);
		CHECK(join(thread) == tid);
		back(id);
	}
	pid_t now[] = {getpid(), own_tid(), getppid(), getpgrp(), getsid(0)};
	CHECK(memcmp(ids, now, sizeof ids) == 0);
	say("the ids are the same");
	CHECK(syscall(SYS_tgkill, getpid(), tid, SIGUSR1) == 0);
	post(&go, 1);
	CHECK(join(thread) == tid);
	CHECK(atomic_load(&tid_in_handler) == tid);
	say("the signal came to the thread");
	return 0;
}
