// A timer's signals, one each millisecond, at most 1000, into a computation of
// COUNT steps.
#include <signal.h>
#include <sys/time.h>

#include "micro.h"

static volatile sig_atomic_t come;

static void handler(int number)
{
	(void)number;
	if (++come == 1000)
		setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

int main(int argc, char **argv)
{
	long count = micro_count(argc, argv);
	uint64_t x = 1;
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct itimerval interval = { { 0, 1000 }, { 0, 1000 } };
	sigaction(SIGALRM, &action, NULL);
	int64_t start = micro_now();
	setitimer(ITIMER_REAL, &interval, NULL);
	for (long i = 0; i < count; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	micro_report(start);
	return come == 0 || x == 1;
}
