// One thread holds a mutex while it stops another by a signal, looks at it and lets it go
// on, as runtimes with garbage collectors do; it unlocks, and locks again at once. The
// other one, which takes the signals before it can take the mutex, is let in nevertheless.
// Where calls are taken for undescribed, the kernel wakes the one that waits, and who comes
// first is left to chance.
// covers: futex rt_sigsuspend tgkill
// not-by: write-protection sums
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#define ROUNDS 5

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t stopped;
static volatile int rounds;

static void on_resume(int signal)
{
	(void)signal;
}

static void on_suspend(int signal)
{
	(void)signal;
	sigset_t all;
	sigfillset(&all);
	sigdelset(&all, SIGUSR2);
	sem_post(&stopped);
	sigsuspend(&all);
	sem_post(&stopped);
}

static void *other(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		rounds++;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void signal_and_wait(pthread_t thread, int signal)
{
	CHECK(pthread_kill(thread, signal) == 0);
	while (sem_wait(&stopped) != 0)
		;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_suspend, .sa_flags = SA_RESTART };
	sigfillset(&action.sa_mask);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	action.sa_handler = on_resume;
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
	CHECK(sem_init(&stopped, 0, 0) == 0);

	pthread_t thread;
	pthread_mutex_lock(&mutex);
	CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
	int stops = 0;
	while (rounds < ROUNDS) {
		signal_and_wait(thread, SIGUSR1);
		signal_and_wait(thread, SIGUSR2);
		stops++;
		pthread_mutex_unlock(&mutex);
		pthread_mutex_lock(&mutex);
	}
	pthread_mutex_unlock(&mutex);
	CHECK(pthread_join(thread, NULL) == 0);
	nondet("after %d stops", stops);
	say("let in %d times", rounds);
	return 0;
}
