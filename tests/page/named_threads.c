// Three threads that give themselves names and wait, so that the recording takes a while.
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *work(void *number)
{
	char name[16];
	snprintf(name, sizeof name, "worker-%d", *(int *)number);
	prctl(PR_SET_NAME, name);
	usleep(100000);
	puts(name);
	return NULL;
}

int main(void)
{
	pthread_t threads[3];
	int numbers[] = { 1, 2, 3 };
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, &numbers[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
