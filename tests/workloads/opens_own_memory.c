// Shared memory with a name, which a child opens as well: nobody but these two stores there. Its length is
// the largest that is compared behind each call where processes of others may have it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES (1 << 20)
#define ROUNDS 300

static unsigned *map(const char *name, int flags)
{
	int fd = shm_open(name, O_RDWR | flags, 0600);
	if (fd < 0 || (flags && ftruncate(fd, BYTES) != 0))
		exit(1);
	unsigned *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return words == MAP_FAILED ? exit(2), words : words;
}

static void store(unsigned *words, unsigned state)
{
	for (int i = 0; i < BYTES / 4; i++)
		words[i] = state = state * 1664525 + 1013904223;
}

int main(void)
{
	char name[64];
	snprintf(name, sizeof name, "/opens_own_memory.%d", getpid());
	unsigned *words = map(name, O_CREAT | O_EXCL);
	store(words, 1);
	pid_t child = fork();
	if (child == 0)
		words = map(name, 0);
	// Until it is known who opened it.
	nanosleep(&(struct timespec){1, 0}, NULL);
	char byte;
	int zero = open("/dev/zero", O_RDONLY);
	for (int round = 0; round < ROUNDS; round++) {
		if (child != 0)
			store(words, round);
		if (read(zero, &byte, 1) != 1)
			return 3;
	}
	if (child == 0)
		return 0;
	int status;
	waitpid(child, &status, 0);
	shm_unlink(name);
	printf("child %d, %u\n", status, words[BYTES / 4 - 1]);
	return 0;
}
