/* Functions for gdb to call: with and without effects, that allocate, print, ask the
 * kernel for what is outside, die, or end the program. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int counter = 7;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int next(void)
{
	return ++counter;
}

double scaled(double value, int by)
{
	return value * by;
}

int length(const char *text)
{
	return strlen(text);
}

char *doubled(const char *text)
{
	char *result = malloc(2 * strlen(text) + 1);
	strcpy(result, text);
	return strcat(result, text);
}

void greet(const char *name)
{
	char text[64];
	write(1, text, snprintf(text, sizeof text, "hello, %s\n", name));
}

int leaves_a_file(const char *path)
{
	return open(path, O_CREAT | O_WRONLY, 0600);
}

int dies(int *where)
{
	return *where;
}

void ends(int code)
{
	_exit(code);
}

int wait_for_ever(void)
{
	return pthread_mutex_lock(&lock);
}

int advance(int n)
{
	counter += n;
	return counter;
}

int main(void)
{
	char *large = malloc(300000);
	int total = 0;
	for (int i = 0; i < 5; i++)
		total += advance(i);
	pthread_mutex_lock(&lock);
	int before_end = total + next();
	memset(large, before_end, 300000);
	printf("%d %d\n", before_end, getpid() > 1);
	free(large);
	return 0;
}
