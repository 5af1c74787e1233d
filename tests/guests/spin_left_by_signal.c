// Threads that wait in a loop with pause, as for a spin lock, and are led out of it by a
// signal's handler: nothing else lets them go on.
// covers: rt_sigaction rt_sigreturn tgkill
#include "guest.h"
#include "threads.h"
#include <setjmp.h>

static pthread_spinlock_t lock;
static volatile int waits;
static volatile int turns;
static __thread sigjmp_buf out;

static void jump_out(int number)
{
	siglongjmp(out, number);
}

static void count(int number)
{
	(void)number;
	turns++;
}

static void *locks(void *argument)
{
	(void)argument;
	int number = sigsetjmp(out, 1);
	if (number == 0) {
		waits = 1;
		pthread_spin_lock(&lock);
	}
	say("left the lock by signal %d", number);
	return NULL;
}

// The pause has no room for a jump: something jumps to what follows it.
static void *pauses(void *argument)
{
	(void)argument;
	waits = 1;
	int seen = 0;
	__asm__ volatile("1: pause\n2: cmpl $3, %1\n   jge 3f\n   incl %0\n   testl $1, %0\n   jz 1b\n   jmp 2b\n3:"
			 : "+r"(seen)
			 : "m"(turns)
			 : "cc");
	say("left the loop after %d handlers", turns);
	return NULL;
}

static void leave(void *(*how)(void *), int number, int times)
{
	pthread_t thread;
	waits = 0;
	CHECK(pthread_create(&thread, NULL, how, NULL) == 0);
	while (!waits)
		sched_yield();
	for (int i = 1; i <= times; i++) {
		CHECK(pthread_kill(thread, number) == 0);
		while (number == SIGUSR2 && turns < i)
			sched_yield();
	}
	CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
	struct sigaction action = {.sa_handler = jump_out};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	action.sa_handler = count;
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
	CHECK(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE) == 0);
	CHECK(pthread_spin_lock(&lock) == 0);
	for (int i = 0; i < 5; i++)
		leave(locks, SIGUSR1, 1);
	leave(pauses, SIGUSR2, 3);

	// Alone, in a process whose parent had threads.
	pid_t child = fork();
	if (child == 0) {
		if (sigsetjmp(out, 1) == 0) {
			signal(SIGALRM, jump_out);
			alarm(1);
			pthread_spin_lock(&lock);
		}
		_exit(4);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
	return 0;
}
