// One of eight threads runs into a null pointer. Its handler replays from the checkpoint
// a hundred times and comes to the same crash: the same thread, place and memory, or the
// write that tells of it would differ from the log. Then it dies of it.
// prints: replayed 100 times
// expect: signal 11
#include "live.h"
#include <sys/ucontext.h>

#define REPLAYS 100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t racy = 1;
static long drawn;
static int *volatile shared_pointer;
static int value, id;
static atomic_flag has_crashed = ATOMIC_FLAG_INIT;

static void crash(int number, siginfo_t *information, void *context)
{
	ucontext_t *at = context;
	// Others that come here meanwhile wait for the end.
	while (atomic_flag_test_and_set(&has_crashed))
		pause();
	CHECK(information->si_addr == NULL);
	char text[128];
	int length = snprintf(text, sizeof text, "~ %d at %llx, address %p, after %ld draws: %llx\n", own_tid(),
			      (unsigned long long)at->uc_mcontext.gregs[REG_RIP], information->si_addr, drawn,
			      (unsigned long long)racy);
	CHECK(write(1, text, (size_t)length) == length);
	for (int i = 0; i < REPLAYS; i++)
		CHECK(rv_replay(id) == 0);
	length = snprintf(text, sizeof text, "replayed %d times\n", REPLAYS);
	CHECK(write(1, text, (size_t)length) == length);
	signal(number, SIG_DFL);
}

static void *work(void *argument)
{
	uint64_t own = (uint64_t)(long)argument + 1;
	for (;;) {
		own = compute(own, 100);
		racy = racy * 31 + own;
		CHECK(pthread_mutex_lock(&lock) == 0);
		drawn++;
		// The bug: one of them takes it away while others look.
		if (drawn == 3000)
			shared_pointer = NULL;
		CHECK(pthread_mutex_unlock(&lock) == 0);
		*shared_pointer += 1;
	}
	return NULL;
}

int main(void)
{
	need_session();
	struct sigaction action = {.sa_sigaction = crash, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	shared_pointer = &value;
	CHECK(pthread_mutex_lock(&lock) == 0);
	pthread_t threads[8];
	for (long i = 0; i < 8; i++)
		threads[i] = start(work, (void *)i);
	id = checkpoint();
	CHECK(pthread_mutex_unlock(&lock) == 0);
	join(threads[0]);
	return 1;
}
