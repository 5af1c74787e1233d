// A file mapped by a parent, by a child that inherits it, and by a program that opens it later.
// covers: mmap msync execve pwrite64
#include "threads.h"
#include <sys/mman.h>

#define FILE_BYTES (64 << 10)

struct shared {
	atomic_int word, done;
	unsigned char bytes[FILE_BYTES - 64];
};

static struct shared *map_file(void)
{
	int fd = open("mapped", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	struct shared *shared = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED && close(fd) == 0);
	return shared;
}

// Runs after an exec: nothing of the mapping is left but the file.
static int be_unrelated(void)
{
	struct shared *shared = map_file();
	CHECK(await(&shared->word) == 2);
	for (int i = 0; i < 5000; i++)
		shared->bytes[i] = (unsigned char)(shared->bytes[i] * 3 + i);
	post(&shared->done, 1);
	return 6;
}

int main(int argc, char **argv)
{
	unsigned char own[100];
	(void)argv;
	if (argc == 2)
		return be_unrelated();
	int fd = open("mapped", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	struct shared *shared = map_file();

	pid_t heir = fork();
	if (heir == 0) {
		await(&shared->word);
		memset(shared->bytes + 1000, 'h', 1000);
		post(&shared->done, 1);
		_exit(5);
	}
	pid_t unrelated = fork();
	if (unrelated == 0) {
		CHECK(munmap(shared, FILE_BYTES) == 0);
		// It begins when the first is through, and maps the file anew.
		struct shared *late = map_file();
		int word;
		while ((word = atomic_load(&late->word)) != 2)
			syscall(SYS_futex, &late->word, FUTEX_WAIT, word, NULL, NULL, 0);
		execl("/proc/self/exe", "unrelated", "x", NULL);
		_exit(126);
	}
	memset(shared->bytes, 'p', 1000);
	post(&shared->word, 1);
	await(&shared->done);
	reap("heir", heir);
	atomic_store(&shared->done, 0);
	post(&shared->word, 2);
	await(&shared->done);
	reap("unrelated", unrelated);
	say("bytes %llx", (unsigned long long)hash_bytes(shared->bytes, sizeof shared->bytes));
	// What is mapped is the file: calls see it, and change it.
	CHECK(pread(fd, own, sizeof own, 8) == sizeof own && memcmp(own, shared->bytes, sizeof own) == 0);
	CHECK(pwrite(fd, "by a call", 9, 8) == 9 && memcmp(shared->bytes, "by a call", 9) == 0);
	CHECK(msync(shared, FILE_BYTES, MS_SYNC) == 0);
	say("ends");
	return 0;
}
