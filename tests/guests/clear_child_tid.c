// The word that the kernel clears and wakes when a thread ends, moved by set_tid_address.
// covers: set_tid_address futex
#include "threads.h"

static atomic_int words[2];

// Its own join would wait for the word that was moved: so it is detached.
static void *move_the_word(void *argument)
{
	long index = (long)argument;
	long tid = syscall(SYS_set_tid_address, &words[index]);
	CHECK(tid == own_tid());
	post(&words[index], (int)tid);
	return NULL;
}

static void *no_word(void *argument)
{
	(void)argument;
	CHECK(syscall(SYS_set_tid_address, NULL) == own_tid());
	post(&words[0], 1);
	return NULL;
}

static void start_detached(void *(*body)(void *), long argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
	CHECK(pthread_create(&thread, &attributes, body, (void *)argument) == 0);
}

int main(void)
{
	for (int round = 0; round < 20; round++) {
		for (long i = 0; i < 2; i++) {
			// Until the thread has set it the word is -1, which it is not cleared from.
			int tid;
			atomic_store(&words[i], -1);
			start_detached(move_the_word, i);
			while ((tid = atomic_load(&words[i])) != 0)
				syscall(SYS_futex, &words[i], FUTEX_WAIT, tid, NULL, NULL, 0);
		}
	}
	say("forty words were cleared");
	atomic_store(&words[0], 0);
	start_detached(no_word, 0);
	say("without a word: %d", await(&words[0]));
	say("the main thread's: %d", syscall(SYS_set_tid_address, &words[1]) == getpid());
	return 0;
}
