// A program that wants a fault where it reads the time stamp counter (PR_SET_TSC): in files and in generated
// code, in threads and children made since; until it wants to read it again.
// covers: prctl rt_sigaction fork clone wait4
// build: -pthread
#include "guest.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <x86intrin.h>

static volatile int faults, code, length;

static void on_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	faults += number == SIGSEGV;
	code = info->si_code;
	CHECK(info->si_addr == NULL);
	CHECK(interrupted->uc_mcontext.gregs[REG_TRAPNO] == 13);
	interrupted->uc_mcontext.gregs[REG_RIP] += length;
}

static void read_counter(const char *who)
{
	unsigned aux;
	faults = code = 0;
	length = 2;
	for (int i = 0; i < 3; i++)
		(void)__rdtsc();
	length = 3;
	for (int i = 0; i < 2; i++)
		(void)__rdtscp(&aux);
	int mode = 0;
	CHECK(prctl(PR_GET_TSC, &mode, 0, 0, 0) == 0);
	say("%s: %d faults, code %x, mode %d", who, faults, code, mode);
	fflush(stdout);
}

static void generated(void)
{
	unsigned char *page = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	memcpy(page, "\x0f\x31\xc3", 3); // rdtsc; ret
	faults = 0;
	length = 2;
	((void (*)(void))page)();
	say("generated: %d", faults);
}

static void *in_thread(void *arg)
{
	read_counter("thread");
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	read_counter("before");
	CHECK_ERR(prctl(PR_SET_TSC, 3, 0, 0, 0), EINVAL);
	CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
	read_counter("forbidden");
	generated();
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		// What it executes inherits this too, and most loaders read the counter.
		read_counter("child");
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) == 0);
	read_counter("permitted");
	generated();
	return 0;
}
