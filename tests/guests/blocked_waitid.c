// Threads that wait for children, each for its own, while the main thread computes.
// covers: waitid wait4
#include "threads.h"

static atomic_int here[3];
static int gates[3][2];

static pid_t child_behind_gate(int index)
{
	pid_t child = fork();
	if (child == 0) {
		char code;
		CHECK(read(gates[index][0], &code, 1) == 1);
		_exit(code);
	}
	CHECK(child > 0);
	return child;
}

static void *in_waitid(void *argument)
{
	siginfo_t info = {0};
	pid_t child = child_behind_gate(0);
	announce(&here[0]);
	CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == 0);
	CHECK(info.si_pid == child && info.si_code == CLD_EXITED && argument == NULL);
	return (void *)(long)info.si_status;
}

static void *in_waitpid(void *argument)
{
	int status;
	pid_t child = child_behind_gate(1);
	announce(&here[1]);
	CHECK(waitpid(child, &status, 0) == child && argument == NULL);
	return (void *)(long)WEXITSTATUS(status);
}

// Only the child that this thread made: the others' are not its own.
static void *in_wait_for_own(void *argument)
{
	int status;
	pid_t child = child_behind_gate(2);
	announce(&here[2]);
	CHECK(waitpid(-1, &status, __WNOTHREAD) == child && argument == NULL);
	CHECK_ERR(waitpid(-1, &status, __WNOTHREAD), ECHILD);
	return (void *)(long)WEXITSTATUS(status);
}

int main(void)
{
	void *(*const bodies[3])(void *) = {in_waitid, in_waitpid, in_wait_for_own};
	for (char round = 1; round <= 3; round++) {
		pthread_t threads[3];
		for (int i = 0; i < 3; i++) {
			atomic_store(&here[i], 0);
			CHECK(pipe2(gates[i], O_CLOEXEC) == 0);
			threads[i] = start(bodies[i], NULL);
		}
		for (int i = 0; i < 3; i++)
			until_asleep(&here[i]);
		say("meanwhile %llx", (unsigned long long)compute(7, 200000));
		for (int i = 2; i >= 0; i--) {
			char code = (char)(round * 10 + i);
			CHECK(write(gates[i][1], &code, 1) == 1);
			say("thread %d saw %ld", i, join(threads[i]));
			CHECK(close(gates[i][0]) == 0 && close(gates[i][1]) == 0);
		}
	}
	return 0;
}
