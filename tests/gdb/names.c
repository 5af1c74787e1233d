/* Two threads that name themselves, one of them twice, take turns; a third one is given its name by another. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static int to_reader[2], to_writer[2];

static void *reader(void *unused)
{
	char token;
	prctl(PR_SET_NAME, "reader");
	read(to_reader[0], &token, 1);
	prctl(PR_SET_NAME, "late <reader>");
	write(to_writer[1], &token, 1);
	read(to_reader[0], &token, 1);
	return unused;
}

static void *waiter(void *unused)
{
	pause();
	return unused;
}

int main(void)
{
	pthread_t thread, third;
	char token = 'x';
	if (pipe(to_reader) || pipe(to_writer))
		return 2;
	prctl(PR_SET_NAME, "writer");
	pthread_create(&thread, 0, reader, 0);
	write(to_reader[1], &token, 1);
	read(to_writer[0], &token, 1);
	pthread_create(&third, 0, waiter, 0);
	pthread_setname_np(third, "named");
	puts("between");
	write(to_reader[1], &token, 1);
	pthread_join(thread, 0);
	pthread_cancel(third);
	pthread_join(third, 0);
	puts("end");
	return 0;
}
