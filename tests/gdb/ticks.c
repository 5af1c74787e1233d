// Counts, a line each tenth of a second; two more threads wait. Anybody may attach to it.
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static int count;

static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
}

static void tick(void)
{
	count++;
	printf("%d\n", count);
	fflush(stdout);
}

int main(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, wait_for_ever, NULL);
	}
	for (;;) {
		tick();
		usleep(100000);
	}
}
