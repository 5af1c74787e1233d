// Signals at the process go to a thread that does not block them; pthread_kill names one.
// covers: kill rt_sigprocmask rt_sigpending tgkill
#include "threads.h"

static atomic_int ready, leave, taken_by, handled;
static atomic_int pending_word;

static void note_who(int number)
{
	(void)number;
	atomic_store(&taken_by, own_tid());
	atomic_fetch_add(&handled, 1);
}

static void until_handled(int count)
{
	while (atomic_load(&handled) < count)
		sched_yield();
}

// Blocks the signal but for the span in which the word says otherwise.
static void *take_turns(void *argument)
{
	atomic_int *may = argument;
	mask(SIG_BLOCK, SIGUSR1);
	announce(&ready);
	while (!atomic_load(&leave)) {
		if (atomic_load(may)) {
			int before = atomic_load(&handled);
			mask(SIG_UNBLOCK, SIGUSR1);
			until_handled(before + 1);
			mask(SIG_BLOCK, SIGUSR1);
			atomic_store(may, 0);
		}
		sched_yield();
	}
	return NULL;
}

static void to_the_process(void)
{
	static atomic_int may[3];
	pthread_t threads[3];
	int tids[3];
	mask(SIG_BLOCK, SIGUSR1);
	for (int i = 0; i < 3; i++) {
		atomic_store(&ready, 0);
		threads[i] = start(take_turns, &may[i]);
		tids[i] = await(&ready);
	}
	for (int round = 0; round < 9; round++) {
		int chosen = round % 3, before = atomic_load(&handled);
		CHECK(kill(getpid(), SIGUSR1) == 0);
		sigset_t pending;
		CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
		CHECK(atomic_load(&handled) == before);
		atomic_store(&may[chosen], 1);
		while (atomic_load(&may[chosen]))
			sched_yield();
		say("round %d: taken by thread %d: %d", round, chosen, atomic_load(&taken_by) == tids[chosen]);
	}
	atomic_store(&leave, 1);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	mask(SIG_UNBLOCK, SIGUSR1);
}

// What is pending at a thread is not pending at another.
static void *hold_back(void *argument)
{
	sigset_t pending;
	(void)argument;
	mask(SIG_BLOCK, SIGUSR2);
	announce(&pending_word);
	do {
		CHECK(sigpending(&pending) == 0);
		sched_yield();
	} while (!sigismember(&pending, SIGUSR2));
	atomic_store(&pending_word, -1);
	while (atomic_load(&pending_word) == -1)
		sched_yield();
	int before = atomic_load(&handled);
	mask(SIG_UNBLOCK, SIGUSR2);
	CHECK(atomic_load(&handled) == before + 1 && atomic_load(&taken_by) == own_tid());
	return NULL;
}

static void to_one_thread(void)
{
	sigset_t pending;
	atomic_store(&pending_word, 0);
	pthread_t thread = start(hold_back, NULL);
	await(&pending_word);
	CHECK(pthread_kill(thread, SIGUSR2) == 0);
	while (atomic_load(&pending_word) != -1)
		sched_yield();
	CHECK(sigpending(&pending) == 0);
	say("pending at the main thread: %d", sigismember(&pending, SIGUSR2));
	atomic_store(&pending_word, 1);
	join(thread);
	CHECK(pthread_kill(pthread_self(), 0) == 0 && pthread_kill(pthread_self(), 99) == EINVAL);
}

int main(void)
{
	handle(SIGUSR1, note_who, 0);
	handle(SIGUSR2, note_who, 0);
	to_the_process();
	for (int i = 0; i < 5; i++)
		to_one_thread();
	say("handled %d", atomic_load(&handled));
	return 0;
}
