// System V semaphores, message queues, and shared memory within one process.
// covers: shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
#include "guest.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

struct text_message {
	long type;
	char text[32];
};

static void semaphores(void)
{
	unsigned short values[3] = {1, 2, 3}, got[3] = {0};
	struct semid_ds state;
	int id = semget(IPC_PRIVATE, 3, 0600);
	CHECK(id >= 0);
	nondet("semaphores %d", id);
	CHECK(semctl(id, 0, SETALL, values) == 0);
	struct sembuf two[2] = {{0, -1, 0}, {2, 5, 0}};
	CHECK(syscall(SYS_semop, id, two, 2) == 0);
	CHECK(semctl(id, 0, GETALL, got) == 0);
	say("semaphores %d %d %d", got[0], got[1], got[2]);
	struct sembuf down = {0, -1, IPC_NOWAIT};
	CHECK_ERR(semop(id, &down, 1), EAGAIN);
	down.sem_flg = 0;
	struct timespec limit = {0, 10000000};
	CHECK_ERR(semtimedop(id, &down, 1, &limit), EAGAIN);
	CHECK(semctl(id, 1, SETVAL, 9) == 0 && semctl(id, 1, GETVAL) == 9);
	CHECK(semctl(id, 0, IPC_STAT, &state) == 0 && state.sem_nsems == 3);
	nondet("changed %ld", state.sem_ctime);
	pid_t child = fork();
	if (child == 0) {
		struct sembuf up = {0, 1, 0};
		_exit(semop(id, &up, 1) == 0 ? 0 : 1);
	}
	CHECK(semop(id, &down, 1) == 0);
	reap("raiser", child);
	say("last operation by me %d", semctl(id, 0, GETPID) == getpid());
	CHECK(semctl(id, 0, IPC_RMID) == 0);
	CHECK_ERR(semop(id, &down, 1), EINVAL);
}

static void messages(void)
{
	struct msqid_ds state;
	struct text_message m = {3, "third kind"}, in;
	int id = msgget(IPC_PRIVATE, 0600);
	CHECK(id >= 0);
	CHECK(msgsnd(id, &m, 11, 0) == 0);
	m = (struct text_message){2, "second"};
	CHECK(msgsnd(id, &m, 7, IPC_NOWAIT) == 0);
	CHECK(msgctl(id, IPC_STAT, &state) == 0);
	say("%lu messages, %lu bytes", (unsigned long)state.msg_qnum, (unsigned long)state.__msg_cbytes);
	memset(&in, '#', sizeof in);
	CHECK(msgrcv(id, &in, sizeof in.text, 2, 0) == 7 && in.text[7] == '#');
	say("type %ld: %s", in.type, in.text);
	CHECK_ERR(msgrcv(id, &in, 4, 0, 0), E2BIG);
	CHECK(msgrcv(id, &in, 4, 0, MSG_NOERROR) == 4);
	say("type %ld: %.4s", in.type, in.text);
	CHECK_ERR(msgrcv(id, &in, 4, 0, IPC_NOWAIT), ENOMSG);
	pid_t child = fork();
	if (child == 0) {
		m = (struct text_message){8, "from the child"};
		_exit(msgsnd(id, &m, 15, 0) == 0 ? 0 : 1);
	}
	CHECK(msgrcv(id, &in, sizeof in.text, 0, 0) == 15);
	say("type %ld: %s", in.type, in.text);
	reap("sender", child);
	CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static void memory(void)
{
	struct shmid_ds state;
	int id = shmget(IPC_PRIVATE, 10000, 0600);
	CHECK(id >= 0);
	char *a = shmat(id, NULL, 0);
	CHECK(a != (void *)-1);
	nondet("attached at %p", (void *)a);
	strcpy(a, "shared segment");
	CHECK(shmctl(id, IPC_STAT, &state) == 0);
	say("size %zu attached %lu", state.shm_segsz, (unsigned long)state.shm_nattch);
	CHECK(shmdt(a) == 0);
	const char *b = shmat(id, NULL, SHM_RDONLY);
	CHECK(b != (void *)-1);
	say("again: %s", b);
	CHECK(shmdt(b) == 0);
	CHECK(shmctl(id, IPC_RMID, NULL) == 0);
	CHECK_ERR(shmdt(b), EINVAL);
	CHECK((long)shmat(id, NULL, 0) == -1);
}

int main(void)
{
	semaphores();
	messages();
	memory();
	return 0;
}
