/* Children come to memory that they share by its name: one to what its parent mapped and it
 * has given up, another to what a sibling made. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int *map(const char *name)
{
	int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	ftruncate(fd, 4096);
	int *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return memory;
}

int main(void)
{
	char first[64], second[64], byte = 0;
	int ends[2], status;
	snprintf(first, sizeof first, "/first-%d", getpid());
	snprintf(second, sizeof second, "/second-%d", getpid());
	pipe(ends);
	int *counter = map(first);
	*counter = 1;
	if (fork() == 0) {
		munmap(counter, 4096);
		counter = map(first);
		*counter += 10;
		*map(second) = 100;
		write(ends[1], &byte, 1);
		_exit(0);
	}
	if (fork() == 0) {
		read(ends[0], &byte, 1);
		*counter += *map(second);
		_exit(0);
	}
	while (wait(&status) > 0)
		;
	printf("counter %d\n", *counter);
	shm_unlink(first);
	shm_unlink(second);
	return 0;
}
