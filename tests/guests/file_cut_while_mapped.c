// A file is cut while it is mapped, privately and shared, by each of the calls that can: what is
// behind its end is a bus error, until the file grows again, and then zeros. A pause meets such a
// mapping, too.
// covers: truncate ftruncate openat
#include "threads.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>

#define PAGE 4096

static sigjmp_buf jump;
static volatile sig_atomic_t alarms;

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	say("bus error %d at %ld", info->si_code, (long)info->si_addr % PAGE);
	siglongjmp(jump, 1);
}

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void look(const char *name, const volatile char *bytes)
{
	if (sigsetjmp(jump, 1) == 0)
		say("%s: %d", name, *bytes);
}

static void *cut(void *how)
{
	if (how == NULL)
		CHECK(truncate("file", 100) == 0);
	else
		CHECK(close(open("file", O_WRONLY | O_TRUNC)) == 0);
	return NULL;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
	CHECK(sigaction(SIGBUS, &action, NULL) == 0);
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
	int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	for (int round = 0; round < 2; round++) {
		CHECK(ftruncate(fd, 2 * PAGE) == 0);
		CHECK(pwrite(fd, "written", 7, PAGE + 10) == 7);
		char *own = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		char *shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		const char *read_only = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
		CHECK(own != MAP_FAILED && shared != MAP_FAILED && read_only != MAP_FAILED);
		own[PAGE] = own[50] = 1;
		shared[PAGE] = shared[200] = 2;
		join(start(cut, round ? &fd : NULL));
		look("own, cut", own + PAGE);
		look("own, cut, once more", own + PAGE);
		look("own, before the cut", own + 50);
		look("shared, cut", shared + PAGE);
		look("shared, before the cut", shared + 200);
		look("only read, cut", read_only + PAGE + 10);
		struct itimerval interval = { { 0, 2000 }, { 0, 2000 } }, none = { { 0, 0 }, { 0, 0 } };
		int until = alarms + 3;
		CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
		while (alarms < until)
			;
		CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
		CHECK(ftruncate(fd, 2 * PAGE) == 0);
		look("own, grown", own + PAGE);
		look("shared, grown", shared + PAGE);
		look("only read, grown", read_only + PAGE + 10);
		CHECK(munmap(own, 2 * PAGE) == 0 && munmap(shared, 2 * PAGE) == 0);
	}
	CHECK(unlink("file") == 0);
	return 0;
}
