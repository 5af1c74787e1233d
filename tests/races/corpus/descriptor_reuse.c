// A thread writes to a descriptor that another one has closed, and that is another file's by now.
#include "corpus.h"

static atomic_int log_file;

static void *log_line(void *unused)
{
	int file = atomic_load(&log_file);
	if (file >= 0 && write(file, "log\n", 4) < 0 && errno != EBADF)
		must(0, "write");
	return unused;
}

int main(void)
{
	atomic_store(&log_file, memfd_create("log", 0));
	pthread_t logger = start(log_line, NULL);
	int file = atomic_exchange(&log_file, -1);
	close(file);
	int data = memfd_create("data", 0);
	pthread_join(logger, NULL);
	if (lseek(data, 0, SEEK_END) != 0)
		caught("a line of the log is in the data");
	return 0;
}
