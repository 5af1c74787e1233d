// System V shared memory of several processes, guarded by a System V semaphore.
// covers: shmget shmat shmctl shmdt semget semop semctl
#include "threads.h"
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>

static int semaphore;

static void change(int by)
{
	struct sembuf operation = {0, (short)by, SEM_UNDO};
	CHECK(semop(semaphore, &operation, 1) == 0);
}

static void count(volatile long *memory)
{
	for (int i = 0; i < 100; i++) {
		change(-1);
		long before = memory[0];
		CHECK(compute((uint64_t)before, 100) != 1);
		memory[0] = before + 1;
		change(1);
	}
}

int main(void)
{
	pid_t children[3];
	struct shmid_ds state;
	int id = shmget(IPC_PRIVATE, 1 << 16, 0600);
	semaphore = semget(IPC_PRIVATE, 1, 0600);
	CHECK(id >= 0 && semaphore >= 0 && semctl(semaphore, 0, SETVAL, 1) == 0);
	volatile long *memory = shmat(id, NULL, 0);
	CHECK(memory != (void *)-1);
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			// The first uses what it inherited; the others attach it themselves.
			if (i > 0) {
				CHECK(shmdt((void *)memory) == 0);
				memory = shmat(id, NULL, 0);
				CHECK(memory != (void *)-1);
			}
			count(memory);
			if (i == 2) {
				// Undone when it dies with the semaphore taken.
				change(-1);
				raise(SIGKILL);
			}
			_exit(i);
		}
	}
	count(memory);
	for (int i = 0; i < 3; i++)
		reap("child", children[i]);
	say("counted %ld, semaphore %d", memory[0], semctl(semaphore, 0, GETVAL));
	CHECK(shmctl(id, IPC_STAT, &state) == 0);
	say("attached %lu", (unsigned long)state.shm_nattch);
	CHECK(shmctl(id, IPC_RMID, NULL) == 0 && semctl(semaphore, 0, IPC_RMID) == 0);
	memory[1] = 6;
	say("still there after its removal: %ld", memory[1]);
	CHECK(shmdt((void *)memory) == 0);
	return 0;
}
