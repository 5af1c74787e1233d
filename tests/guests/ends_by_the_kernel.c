// A process ends by a signal that the kernel sends by itself, while a thread of it owns a robust
// mutex and computes: SIGPIPE, SIGXFSZ, SIGIO, SIGXCPU, and a timer's real-time signal.
// covers: setrlimit fcntl timer_create timer_settime pipe socketpair
#include "threads.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

struct shared {
	pthread_mutex_t lock;
	atomic_int is_owned;
	volatile unsigned long count;
};

static void *own(void *argument)
{
	struct shared *shared = argument;
	CHECK(pthread_mutex_lock(&shared->lock) == 0);
	post(&shared->is_owned, 1);
	for (;;)
		shared->count++;
}

static void break_pipe(void)
{
	int ends[2];
	CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
	write(ends[1], "x", 1);
}

static void exceed_file_size(void)
{
	struct rlimit limit = { 5000, 5000 };
	char bytes[3000] = "";
	FILE *file = tmpfile();
	CHECK(file && setrlimit(RLIMIT_FSIZE, &limit) == 0);
	for (;;)
		write(fileno(file), bytes, sizeof bytes);
}

static void be_told_of_input(void)
{
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	CHECK(fcntl(ends[0], F_SETOWN, getpid()) == 0);
	CHECK(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
	CHECK(write(ends[1], "x", 1) == 1);
}

static void exceed_processor_time(void)
{
	struct rlimit limit = { 1, 60 };
	CHECK(setrlimit(RLIMIT_CPU, &limit) == 0);
}

static void set_timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3 };
	struct itimerspec soon = { .it_value = { 0, 5000000 } };
	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
}

static void (*const ends[])(void) = { break_pipe, exceed_file_size, be_told_of_input,
				      exceed_processor_time, set_timer };

int main(void)
{
	const struct rlimit no_core = { 0, 0 };
	CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
	struct shared *shared =
		mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (size_t i = 0; i < COUNT(ends); i++) {
		make_robust(&shared->lock, PTHREAD_PRIO_NONE);
		atomic_store(&shared->is_owned, 0);
		pid_t owner = fork();
		CHECK(owner >= 0);
		if (owner == 0) {
			start(own, shared);
			CHECK(await(&shared->is_owned) == 1);
			ends[i]();
			for (;;)
				pause();
		}
		int status;
		CHECK(waitpid(owner, &status, 0) == owner && WIFSIGNALED(status));
		take_from_dead(&shared->lock);
		say("signal %d", WTERMSIG(status));
		nondet("%lu", shared->count);
	}
	return 0;
}
