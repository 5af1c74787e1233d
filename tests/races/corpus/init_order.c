// A thread is started before what it uses is set.
#include "corpus.h"

struct service {
	pthread_t thread;
	const char *name;
};

static struct service service;
static size_t length;

static void *run(void *argument)
{
	struct service *own = argument;
	if (!own->name)
		caught("the service ran before it had a name");
	length = strlen(own->name);
	return NULL;
}

int main(void)
{
	service.thread = start(run, &service);
	service.name = "index";
	pthread_join(service.thread, NULL);
	return length != 5;
}
