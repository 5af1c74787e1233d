// Processes that write and make others all the time, and are killed by signals meanwhile: what was
// written is logged, and who was made lives on.
// covers: clone write
#include "guest.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ROUNDS 24

static volatile int *shared;

static void make(int round)
{
	for (int i = 0;; i++) {
		(*shared)++;
		nondet("round %d line %d", round, i);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			(*shared)++;
			nondet("round %d child %d", round, i);
			_exit(0);
		}
		CHECK(waitpid(child, NULL, 0) == child);
	}
}

int main(void)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGALRM, SIGVTALRM};
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int round = 0; round < ROUNDS; round++) {
		int number = signals[round % 6], status;
		// Who runs this may ignore one (nohup does, and shells for what is in the background).
		signal(number, SIG_DFL);
		pid_t maker = fork();
		CHECK(maker >= 0);
		if (maker == 0)
			make(round);
		struct timespec time = {0, 500000 + round * 270000};
		nanosleep(&time, NULL);
		CHECK(kill(maker, number) == 0);
		CHECK(waitpid(maker, &status, 0) == maker);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number);
		(*shared)++;
	}
	say("%d killed", ROUNDS);
	return 0;
}
