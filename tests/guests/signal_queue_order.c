// Real-time signals keep their order and values, at the process and at one thread.
// covers: rt_sigqueueinfo rt_tgsigqueueinfo rt_sigtimedwait
#include "threads.h"

#define SIGNALS 40

static atomic_int here, go;
static int values[3 * SIGNALS], numbers[3 * SIGNALS];
static volatile int count;

static void note(int number, siginfo_t *info, void *context)
{
	(void)context;
	values[count] = info->si_value.sival_int;
	numbers[count] = number - SIGRTMIN;
	count++;
}

static void *send_to_process(void *argument)
{
	for (int i = 0; i < SIGNALS; i++)
		CHECK(sigqueue(getpid(), SIGRTMIN + 2 - i % 3, (union sigval){.sival_int = i}) == 0);
	return argument;
}

static void *receive(void *argument)
{
	sigset_t *set = argument;
	announce(&here);
	await(&go);
	// All are pending now: the lowest number first, each number in the order of its sending.
	CHECK(pthread_sigmask(SIG_UNBLOCK, set, NULL) == 0);
	return (void *)(long)count;
}

static void print(void)
{
	uint64_t hash = hash_bytes(values, sizeof *values * (size_t)count);
	int is_ordered = 1;
	for (int i = 1; i < count; i++)
		if (numbers[i] == numbers[i - 1] && values[i] <= values[i - 1])
			is_ordered = 0;
	say("%d in order %d, hash %llx, first %d:%d, last %d:%d", count, is_ordered, (unsigned long long)hash,
	    numbers[0], values[0], numbers[count - 1], values[count - 1]);
	count = 0;
}

int main(void)
{
	sigset_t set;
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	sigemptyset(&set);
	for (int i = 0; i < 3; i++) {
		sigaddset(&set, SIGRTMIN + i);
	}
	action.sa_mask = set;
	for (int i = 0; i < 3; i++)
		CHECK(sigaction(SIGRTMIN + i, &action, NULL) == 0);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	pthread_t receiver = start(receive, &set);
	await(&here);
	join(start(send_to_process, NULL));
	post(&go, 1);
	CHECK(join(receiver) == SIGNALS);
	print();

	atomic_store(&here, 0);
	atomic_store(&go, 0);
	receiver = start(receive, &set);
	await(&here);
	for (int i = 0; i < SIGNALS; i++)
		CHECK(pthread_sigqueue(receiver, SIGRTMIN + i % 3, (union sigval){.sival_int = i * 7}) == 0);
	post(&go, 1);
	CHECK(join(receiver) == SIGNALS);
	print();

	// One after the other, taken as they come by a thread that waits.
	join(start(send_to_process, NULL));
	siginfo_t info;
	for (int i = 0; i < SIGNALS; i++) {
		int number = sigwaitinfo(&set, &info);
		CHECK(number > 0);
		note(number, &info, NULL);
	}
	print();
	return 0;
}
