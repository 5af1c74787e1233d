// A function gives its answer in a buffer of its own: two threads have one.
#include "corpus.h"

static const char *name_of(unsigned address)
{
	static char text[16];
	snprintf(text, sizeof text, "%u.%u", address >> 8, address & 255);
	return text;
}

static void *work(void *argument)
{
	unsigned address = (unsigned)(long)argument;
	char wanted[16];
	snprintf(wanted, sizeof wanted, "%u.%u", address >> 8, address & 255);
	for (int i = 0; i < 20; i++)
		if (strcmp(name_of(address), wanted) != 0)
			caught("the name of another address");
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	for (long i = 0; i < 2; i++)
		threads[i] = start(work, (void *)(0x0a01 + i * 0x1111));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
